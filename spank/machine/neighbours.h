/*
 * Neighbours: the processes of other jobs on this node, and which CPUs they have. A core that two jobs have is not to
 * be slowed down for the wait of one of them.
 *
 * They are looked up in /proc: what descends from a slurmstepd of another job, of the same slurmd, and is not stopped.
 * A process that may run on some CPUs only has these, whether it runs or not; one that may run anywhere has the one on
 * which it runs now. So an unbound job that sleeps has none, and one that has left its slurmstepd's descendants is not
 * seen.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"

struct neighbours;

/*
 * For a job, whose neighbours they are. A look costs some twenty microseconds for each process of the node, which is no
 * time that the end of a wait may take: a thread of its own looks. Returns 0 with *ret_neighbours to be freed by
 * neighbours_end, or negative errno.
 */
int neighbours_start(uint32_t job_id, struct neighbours **ret_neighbours, struct error *error);

/* Looks at once. */
void neighbours_look(struct neighbours *neighbours);

/*
 * Whether another job has one of these CPUs, by what was seen last; and has the thread look again: once a second at
 * most, and where a look takes longer than 50 ms, for a twentieth of the time. What cannot be told is "yes".
 */
bool neighbours_have(struct neighbours *neighbours, hwloc_const_bitmap_t cpus);

/* Waits for no look. neighbours may be NULL. */
void neighbours_end(struct neighbours *neighbours);
