/*
 * Neighbours: the processes of other jobs on this node, and which CPUs they have. A core that two jobs have is not to
 * be slowed down for the wait of one of them.
 *
 * They are looked up in /proc: what descends from a slurmstepd of another job, of the same slurmd, and is not stopped.
 * A process that may run on some CPUs only has these, whether it runs or not; one that may run anywhere has the one on
 * which it runs now. So an unbound job that sleeps has none, and one that has left its slurmstepd's descendants is not
 * seen.
 */
#ifndef MPIWAIT_SPANK_NEIGHBOURS_H
#define MPIWAIT_SPANK_NEIGHBOURS_H

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

/* What was seen last. Used by one thread at a time. */
struct neighbours {
	uint32_t job_id; /* whose neighbours they are */
	hwloc_bitmap_t cpus;
	uint64_t looked_ns; /* 0: not yet */
};

/* Returns 0 or -ENOMEM. */
int neighbours_init(uint32_t job_id, struct neighbours *ret_neighbours);

/*
 * Whether another job has one of these CPUs. Looks once a second at most, so an answer is up to a second old; a look
 * costs some ten microseconds for each process of the node. What cannot be told is "yes".
 */
bool neighbours_have(struct neighbours *neighbours, hwloc_const_bitmap_t cpus, uint64_t now_ns);

void neighbours_end(struct neighbours *neighbours);

#endif
