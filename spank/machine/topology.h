/*
 * This machine's cores, by hwloc, and what Slurm's core numbers (bit list "0-3,8") stand for.
 *
 * The two differ where Slurm counts hardware threads as cores, leaves threads or cores out, or calls caches or NUMA
 * nodes sockets. So Slurm's numbers mean nothing here until topology_number was told what each of them stands for.
 * Loaded at most once per step, from an XML copy under the node state that is valid for one boot and one set of online
 * CPUs; never per task.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>

#include "spank/base/error.h"

struct topology;

/* A bitmap that is freed when its scope ends. */
static inline void topology_bitmap_free(const hwloc_bitmap_t *bitmap)
{
	hwloc_bitmap_free(*bitmap);
}

#define cleanup_bitmap __attribute__((cleanup(topology_bitmap_free)))

/*
 * Loads the machine's topology, from cache_directory (0700 root; "" for no cache) if it has this boot's copy with the
 * same CPUs online, else from the machine, leaving a copy. Returns 0 with *ret_topology to be freed by topology_free,
 * or negative errno.
 */
int topology_load(const char *cache_directory, struct topology **ret_topology, struct error *error);
void topology_free(struct topology *topology);

/* Returns how many cores this machine has. */
unsigned topology_cores(const struct topology *topology);

/*
 * Takes Slurm's numbering: cpus[i] are the CPUs of Slurm's core i, and stay the caller's. Returns 0, -ENOMEM, or
 * -EINVAL where the numbering cannot be right: a core without CPUs or with one that this machine lacks, a CPU in two
 * cores.
 */
int topology_number(struct topology *topology, const hwloc_bitmap_t cpus[], unsigned count, struct error *error);

/* Returns how many cores Slurm counts here; 0: not known. */
unsigned topology_numbered(const struct topology *topology);

/* Returns true if no two of Slurm's cores are hardware threads of one core. */
bool topology_is_numbered_by_cores(const struct topology *topology);

/* Adds all CPUs of the machine to ret_cpus. */
void topology_add_all(const struct topology *topology, hwloc_bitmap_t ret_cpus);

/*
 * Finds the CPUs of Slurm's cores [first, first + count) of a list such as "0-3,8", counted within the list; count
 * UINT_MAX: to its end. ret_cpus is the caller's. Returns the number of cores, or -EINVAL (malformed, numbering not
 * known, or a core that the numbering lacks).
 */
int topology_cpus_of(const struct topology *topology, const char *core_list, unsigned first, unsigned count,
                     hwloc_bitmap_t ret_cpus, struct error *error);

/* One more than the highest CPU number there is. */
unsigned topology_cpu_limit(const struct topology *topology);

/* Returns the core that a CPU belongs to, as an index of this machine's cores, not of Slurm's; -1: no such CPU. */
int topology_core_of(const struct topology *topology, unsigned cpu);

#define TOPOLOGY_MASK_LONGS (16384 / (8 * sizeof(unsigned long))) /* twice as many CPUs as Linux can be built for */

/* The CPUs as the kernel takes an affinity. Returns 0 or -EINVAL. */
int topology_mask(hwloc_const_bitmap_t cpus, unsigned long ret_mask[TOPOLOGY_MASK_LONGS]);

/* Affinity of one thread. Return 0 or -errno. */
int topology_get_affinity(pid_t pid, hwloc_bitmap_t ret_cpus);
int topology_set_affinity(pid_t pid, hwloc_const_bitmap_t cpus);
