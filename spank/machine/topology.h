/*
 * Topology: this machine's cores, by hwloc, and the CPUs that Slurm's core numbers ("0-3,8") stand for.
 *
 * The two numberings differ if Slurm counts hardware threads as cores, leaves threads or cores out, or calls caches or
 * NUMA nodes sockets. Slurm's numbers therefore mean nothing until topology_number was told. A step loads the topology
 * at most once, never per task, from an XML copy under the node's state that is valid for one boot and one set of
 * online CPUs.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>

#include "spank/base/error.h"

struct topology;

/* Frees a bitmap when its scope ends: cleanup_bitmap. */
static inline void topology_bitmap_free(const hwloc_bitmap_t *bitmap)
{
	hwloc_bitmap_free(*bitmap);
}

#define cleanup_bitmap __attribute__((cleanup(topology_bitmap_free)))

/*
 * Loads the machine's topology: from the copy in cache_directory (0700, root; "" for no cache) of this boot with the
 * same CPUs online, else from the machine, and saves a copy. Returns 0, with *ret_topology to be freed by
 * topology_free, or -errno.
 */
int topology_load(const char *cache_directory, struct topology **ret_topology, struct error *error);
void topology_free(struct topology *topology);

/* Returns the number of this machine's cores. */
unsigned topology_cores(const struct topology *topology);

/*
 * Sets Slurm's numbering. cpus[i] are the CPUs of Slurm's core i, of which those online are copied: none, if the whole
 * core is offline. Returns 0, -ENOMEM, or -EINVAL if the numbering cannot be right: a core without CPUs or with one
 * that this machine lacks, or a CPU in two cores.
 */
int topology_number(struct topology *topology, const hwloc_bitmap_t cpus[], unsigned count, struct error *error);

/* Returns the number of cores that Slurm counts here, 0 if unknown. */
unsigned topology_numbered(const struct topology *topology);

/* Returns true if no two of Slurm's cores are hardware threads of one core. */
bool topology_is_numbered_by_cores(const struct topology *topology);

/* Add CPUs of the machine to ret_cpus: all that are online, and those that are there but offline. */
void topology_add_all(const struct topology *topology, hwloc_bitmap_t ret_cpus);
void topology_add_offline(const struct topology *topology, hwloc_bitmap_t ret_cpus);

/*
 * Adds up the online CPUs of `count` of Slurm's cores in a list such as "0-3,8", from the list's entry `first` on;
 * count UINT_MAX: to the list's end. ret_cpus is the caller's. Returns the number of cores, or -EINVAL (malformed list,
 * unknown numbering, or a core that the numbering lacks).
 */
int topology_cpus_of(const struct topology *topology, const char *core_list, unsigned first, unsigned count,
                     hwloc_bitmap_t ret_cpus, struct error *error);

/* Returns the highest CPU number plus 1. */
unsigned topology_cpu_limit(const struct topology *topology);

/* Returns the index of the CPU's core among this machine's cores, not Slurm's; -1: no such CPU. */
int topology_core_of(const struct topology *topology, unsigned cpu);

#define TOPOLOGY_MASK_LONGS (16384 / (8 * sizeof(unsigned long))) /* twice the CPUs that Linux can be built for */

/* Converts CPUs to the kernel's affinity mask. Returns 0 or -EINVAL. */
int topology_mask(hwloc_const_bitmap_t cpus, unsigned long ret_mask[TOPOLOGY_MASK_LONGS]);

/* Get and set the affinity of one thread. Return 0 or -errno. */
int topology_get_affinity(pid_t pid, hwloc_bitmap_t ret_cpus);
int topology_set_affinity(pid_t pid, hwloc_const_bitmap_t cpus);
