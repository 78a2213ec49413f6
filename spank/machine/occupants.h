/*
 * Occupants: which job has which CPUs of this node, looked up in /proc, and as a text that steps share.
 *
 * A job's are the processes that descend from a slurmstepd of it, of the same slurmd, and are not stopped. A process
 * that may run on some CPUs only has these, whether it runs or not; one that may run anywhere has the one on which it
 * runs now. An unbound job that sleeps has none, and one that has left its slurmstepd's descendants is not seen.
 */
#pragma once

#include <hwloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCCUPANTS_TEXT_MAX (4 * 1024 * 1024) /* bytes */

struct occupants {
	size_t count;
	struct occupant {
		uint32_t job_id;     /* 0: not known */
		hwloc_bitmap_t cpus; /* full: too many threads to be looked at */
	} * job;
};

/*
 * Looks at the node's processes. A look that *ends stops at once. Returns false if it cannot be told which job has
 * what; *ret_occupants, zeros before, is freed by occupants_free in any case.
 */
bool occupants_look(const _Atomic bool *ends, struct occupants *ret_occupants);
void occupants_free(struct occupants *occupants);

/* Returns the CPUs of all jobs but that one, in *ret_cpus. Returns 0 or -ENOMEM. */
int occupants_others(const struct occupants *occupants, uint32_t job_id, hwloc_bitmap_t ret_cpus);

/* One line a job, "17 0-3,8"; NULL: no memory. */
char *occupants_print(const struct occupants *occupants);

/* From that text. Returns 0, -EBADMSG or -ENOMEM; *ret_occupants, zeros before, is freed by occupants_free in any case.
 */
int occupants_parse(const char *text, struct occupants *ret_occupants);
