/*
 * Occupants: which job has which CPUs of this node, read from /proc, and the text form that steps share.
 *
 * A job has the CPUs of its processes: descendants of its slurmstepd, of the same slurmd, that are not stopped. A
 * process that may run only on some CPUs has these, whether it runs or not; one that may run anywhere has the CPU that
 * it runs on. A sleeping job without binding has no CPU. A process that left its slurmstepd's descendants is not found.
 */
#pragma once

#include <hwloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCCUPANTS_TEXT_MAX (4 * 1024 * 1024) /* bytes */

/* Jobs on the node and their CPUs. Zeros: none. */
struct occupants {
	size_t count;
	struct occupant {
		uint32_t job_id;     /* 0: unknown */
		hwloc_bitmap_t cpus; /* CPUs that it has */
	} * job;
};

/*
 * Finds the CPUs of all jobs on the node. Setting *ends stops it early. Returns false if it was stopped or could not
 * find out. *ret_occupants must be zeroed, and is freed with occupants_free in any case.
 */
bool occupants_find(const _Atomic bool *ends, struct occupants *ret_occupants);
void occupants_free(struct occupants *occupants);

/* Sets *ret_cpus to the CPUs of all jobs but that one. Returns 0 or -ENOMEM. */
int occupants_others(const struct occupants *occupants, uint32_t job_id, hwloc_bitmap_t ret_cpus);

/* Returns one line per job, "17 0-3,8", or NULL without memory. */
char *occupants_print(const struct occupants *occupants);

/*
 * Parses the text of occupants_print. *ret_occupants must be zeroed, and is freed with occupants_free in any case.
 * Returns 0, -EBADMSG or -ENOMEM.
 */
int occupants_parse(const char *text, struct occupants *ret_occupants);
