/*
 * From Slurm's abstract core indices to the CPUs of this machine, by hwloc.
 *
 * Slurm counts cores socket by socket from 0 (bit list "0-3,8"), which is hwloc's logical order of cores. Loaded at
 * most once per step, from an XML copy under the node state that is valid for one boot; never per task.
 */
#pragma once

#include <hwloc.h>

#include "spank/base/error.h"

struct topology;

/* A bitmap that is freed when its scope ends. */
static inline void topology_bitmap_free(const hwloc_bitmap_t *bitmap)
{
	hwloc_bitmap_free(*bitmap);
}

#define cleanup_bitmap __attribute__((cleanup(topology_bitmap_free)))

/*
 * Loads the machine's topology, from cache_directory (0700 root; "" for no cache) if it has this boot's copy, else from
 * the machine, leaving a copy. Returns 0 with *ret_topology to be freed by topology_free, or negative errno.
 */
int topology_load(const char *cache_directory, struct topology **ret_topology, struct error *error);
void topology_free(struct topology *topology);

/* Of the whole machine. */
unsigned topology_cores(const struct topology *topology);

/*
 * The CPUs of the cores [first, first + count) of a list such as "0-3,8", counted within the list; count UINT_MAX: to
 * its end. ret_cpus is the caller's. Returns the number of cores, or -EINVAL (malformed, or a core that the machine
 * lacks).
 */
int topology_cpus_of(const struct topology *topology, const char *core_list, unsigned first, unsigned count,
                     hwloc_bitmap_t ret_cpus, struct error *error);

/* One more than the highest CPU number there is. */
unsigned topology_cpu_limit(const struct topology *topology);

/* The core that a CPU belongs to, as an index of this machine's cores; -1: no such CPU. */
int topology_core_of(const struct topology *topology, unsigned cpu);

#define TOPOLOGY_MASK_LONGS (16384 / (8 * sizeof(unsigned long))) /* twice as many CPUs as Linux can be built for */

/* The CPUs as the kernel takes an affinity. Returns 0 or -EINVAL. */
int topology_mask(hwloc_const_bitmap_t cpus, unsigned long ret_mask[TOPOLOGY_MASK_LONGS]);

/* Affinity of one thread. Return 0 or -errno. */
int topology_get_affinity(pid_t pid, hwloc_bitmap_t ret_cpus);
int topology_set_affinity(pid_t pid, hwloc_const_bitmap_t cpus);
