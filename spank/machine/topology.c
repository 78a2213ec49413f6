/*
 * Answers questions about cores by hwloc. Disallowed CPUs are kept, so that the numbering of cores does not depend on
 * the asking process: slurmstepd itself may sit in a cpuset. What is needed is copied, and hwloc's topology freed at
 * once. hwloc's plugins stay out of slurmstepd; other users of hwloc in it, such as PMIx, still get them.
 */
#include "spank/machine/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/files.h"
#include "spank/base/proc.h"

#define PLUGINS_PATH "HWLOC_PLUGINS_PATH"
#define ONLINE       "/sys/devices/system/cpu/online"
#define PRESENT      "/sys/devices/system/cpu/present"
#define ONLINE_MAX   128 /* bytes; a longer list gets no copy, because the list is part of the file's name */

struct topology {
	unsigned cores;
	unsigned cpu_limit;
	unsigned numbered;      /* number of Slurm's cores, 0: unknown */
	hwloc_bitmap_t offline; /* CPUs that the machine has, but hwloc does not show */
	hwloc_bitmap_t *slurm;  /* online CPUs of a core, by Slurm's number */
	hwloc_bitmap_t core[];  /* CPUs of a core, by hwloc's logical index */
};

/* Loads the machine's topology, or the one of a copy (path). */
static hwloc_topology_t load(const char *path)
{
	hwloc_topology_t handle;

	if ((path && access(path, R_OK) < 0) || hwloc_topology_init(&handle) < 0)
		return NULL;
	hwloc_topology_set_flags(handle, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
	if ((!path || hwloc_topology_set_xml(handle, path) == 0) && hwloc_topology_load(handle) == 0)
		return handle;
	hwloc_topology_destroy(handle);
	return NULL;
}

/*
 * Makes the copy's path, <directory>/topology-<boot id>-<online CPUs>.xml. hwloc shows only online CPUs, so that a copy
 * from a time with an offline CPU numbers the cores differently. "": no copy is used.
 */
static void copy_path(const char *directory, char *path, size_t size)
{
	char boot[PROC_BOOT_MAX], online[ONLINE_MAX];

	if (!directory[0] || proc_boot_read(boot) || proc_line_read(AT_FDCWD, ONLINE, online, sizeof(online)) <= 0 ||
	    strchr(online, '/') || snprintf(path, size, "%s/topology-%s-%s.xml", directory, boot, online) >= (int)size)
		path[0] = '\0';
}

static void save_copy(hwloc_topology_t handle, const char *path)
{
	char temporary[PATH_MAX];

	if (snprintf(temporary, sizeof(temporary), "%s.%u", path, files_number()) >= (int)sizeof(temporary))
		return;
	if (hwloc_topology_export_xml(handle, temporary, 0) < 0 || rename(temporary, path) < 0)
		unlink(temporary);
}

/* Finds the CPUs that the kernel calls present and no core has: none if the kernel does not tell. */
static int take_offline(struct topology *topology)
{
	cleanup_bitmap hwloc_bitmap_t shown = hwloc_bitmap_alloc();
	char present[ONLINE_MAX];

	topology->offline = hwloc_bitmap_alloc();
	if (!shown || !topology->offline)
		return -ENOMEM;
	topology_add_all(topology, shown);
	if (proc_line_read(AT_FDCWD, PRESENT, present, sizeof(present)) <= 0 ||
	    hwloc_bitmap_list_sscanf(topology->offline, present) < 0)
		hwloc_bitmap_zero(topology->offline);
	return hwloc_bitmap_andnot(topology->offline, topology->offline, shown) < 0 ? -ENOMEM : 0;
}

/* Copies from hwloc the CPUs of each core. Returns NULL without memory. */
static struct topology *take_cores(hwloc_topology_t handle)
{
	int cores = hwloc_get_nbobjs_by_type(handle, HWLOC_OBJ_CORE);
	int last = hwloc_bitmap_last(hwloc_topology_get_complete_cpuset(handle));
	struct topology *topology;

	if (cores < 0)
		cores = 0;
	topology = calloc(1, sizeof(*topology) + (size_t)cores * sizeof(topology->core[0]));
	if (!topology)
		return NULL;
	topology->cpu_limit = last >= 0 ? (unsigned)last + 1 : 0;
	while (topology->cores < (unsigned)cores) {
		hwloc_obj_t core = hwloc_get_obj_by_type(handle, HWLOC_OBJ_CORE, topology->cores);
		hwloc_bitmap_t cpus = core ? hwloc_bitmap_dup(core->cpuset) : NULL;

		if (!cpus) {
			topology_free(topology);
			return NULL;
		}
		topology->core[topology->cores++] = cpus;
	}
	if (take_offline(topology) < 0) {
		topology_free(topology);
		return NULL;
	}
	return topology;
}

/*
 * Loads without hwloc's plugins. They load the libraries of displays and OpenCL, whose drivers do not belong into
 * root's slurmstepd, and take longer than everything else. hwloc can only be told by the environment.
 */
int topology_load(const char *cache_directory, struct topology **ret_topology, struct error *error)
{
	bool told = getenv(PLUGINS_PATH) != NULL;
	hwloc_topology_t handle;
	char path[PATH_MAX];

	copy_path(cache_directory, path, sizeof(path));
	if (!told)
		setenv(PLUGINS_PATH, "/dev/null", 0);
	handle = path[0] ? load(path) : NULL;
	if (!handle) {
		handle = load(NULL);
		if (handle && path[0])
			save_copy(handle, path);
	}
	if (!told)
		unsetenv(PLUGINS_PATH);
	if (!handle)
		return error_set(error, -EIO, "hwloc cannot read this machine's topology");
	*ret_topology = take_cores(handle);
	hwloc_topology_destroy(handle);
	return *ret_topology ? 0 : error_set(error, -ENOMEM, "no memory for the topology");
}

static void bitmaps_free(hwloc_bitmap_t bitmaps[], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		hwloc_bitmap_free(bitmaps[i]);
}

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	bitmaps_free(topology->core, topology->cores);
	bitmaps_free(topology->slurm, topology->numbered);
	free(topology->slurm);
	hwloc_bitmap_free(topology->offline);
	free(topology);
}

void topology_add_all(const struct topology *topology, hwloc_bitmap_t ret_cpus)
{
	for (unsigned i = 0; i < topology->cores; i++)
		hwloc_bitmap_or(ret_cpus, ret_cpus, topology->core[i]);
}

void topology_add_offline(const struct topology *topology, hwloc_bitmap_t ret_cpus)
{
	hwloc_bitmap_or(ret_cpus, ret_cpus, topology->offline);
}

/*
 * Returns 0, or -EINVAL if a core of the numbering has no CPU, one that is not there, or another core's. Slurm also
 * counts CPUs that went offline after slurmd had started.
 */
static int numbering_check(const struct topology *topology, const hwloc_bitmap_t cpus[], unsigned count,
                           struct error *error)
{
	cleanup_bitmap hwloc_bitmap_t free_cpus = hwloc_bitmap_dup(topology->offline);

	if (!free_cpus)
		return error_set(error, -ENOMEM, "no memory for Slurm's numbering of cores");
	topology_add_all(topology, free_cpus);
	for (unsigned i = 0; i < count; i++) {
		if (hwloc_bitmap_iszero(cpus[i]) || !hwloc_bitmap_isincluded(cpus[i], free_cpus))
			return error_set(error, -EINVAL,
			                 "Slurm's cores are not this machine's: core %u has no CPU of its own", i);
		hwloc_bitmap_andnot(free_cpus, free_cpus, cpus[i]);
	}
	return 0;
}

int topology_number(struct topology *topology, const hwloc_bitmap_t cpus[], unsigned count, struct error *error)
{
	int result = numbering_check(topology, cpus, count, error);
	hwloc_bitmap_t *slurm = result ? NULL : calloc(count + 1, sizeof(*slurm));

	if (result)
		return result;
	for (unsigned i = 0; slurm && i < count; i++) {
		slurm[i] = hwloc_bitmap_dup(cpus[i]);
		if (slurm[i] && hwloc_bitmap_andnot(slurm[i], slurm[i], topology->offline) == 0)
			continue;
		bitmaps_free(slurm, i + 1);
		free(slurm);
		slurm = NULL;
	}
	if (!slurm)
		return error_set(error, -ENOMEM, "no memory for Slurm's numbering of cores");
	bitmaps_free(topology->slurm, topology->numbered);
	free(topology->slurm);
	topology->slurm = slurm;
	topology->numbered = count;
	return 0;
}

unsigned topology_numbered(const struct topology *topology)
{
	return topology->numbered;
}

bool topology_is_numbered_by_cores(const struct topology *topology)
{
	for (unsigned i = 0; i < topology->cores; i++) {
		unsigned here = 0;

		for (unsigned j = 0; j < topology->numbered; j++)
			here += hwloc_bitmap_intersects(topology->core[i], topology->slurm[j]) != 0;
		if (here > 1)
			return false;
	}
	return topology->numbered > 0;
}

unsigned topology_cores(const struct topology *topology)
{
	return topology->cores;
}

unsigned topology_cpu_limit(const struct topology *topology)
{
	return topology->cpu_limit;
}

int topology_core_of(const struct topology *topology, unsigned cpu)
{
	for (unsigned i = 0; i < topology->cores; i++)
		if (hwloc_bitmap_isset(topology->core[i], cpu))
			return (int)i;
	return -1;
}

int topology_cpus_of(const struct topology *topology, const char *core_list, unsigned first, unsigned count,
                     hwloc_bitmap_t ret_cpus, struct error *error)
{
	cleanup_bitmap hwloc_bitmap_t cores = hwloc_bitmap_alloc();
	unsigned position = 0;
	int core, taken = 0;

	hwloc_bitmap_zero(ret_cpus);
	if (topology->numbered == 0)
		return error_set(error, -EINVAL, "the CPUs of Slurm's cores are unknown");
	if (!cores || !core_list[0] || hwloc_bitmap_list_sscanf(cores, core_list) < 0 ||
	    hwloc_bitmap_weight(cores) <= 0)
		return error_set(error, -EINVAL, "\"%.64s\" is not a list of cores", core_list);
	hwloc_bitmap_foreach_begin(core, cores)
	{
		if ((unsigned)core >= topology->numbered)
			return error_set(error, -EINVAL, "core %d is allocated, but Slurm counts %u here", core,
			                 topology->numbered);
		if (position >= first && position - first < count) {
			hwloc_bitmap_or(ret_cpus, ret_cpus, topology->slurm[core]);
			taken++;
		}
		position++;
	}
	hwloc_bitmap_foreach_end();
	return taken;
}

int topology_mask(hwloc_const_bitmap_t cpus, unsigned long ret_mask[TOPOLOGY_MASK_LONGS])
{
	memset(ret_mask, 0, TOPOLOGY_MASK_LONGS * sizeof(ret_mask[0]));
	return hwloc_bitmap_to_ulongs(cpus, TOPOLOGY_MASK_LONGS, ret_mask) < 0 ? -EINVAL : 0;
}

int topology_get_affinity(pid_t pid, hwloc_bitmap_t ret_cpus)
{
	unsigned long mask[TOPOLOGY_MASK_LONGS] = {0};

	if (sched_getaffinity(pid, sizeof(mask), (cpu_set_t *)mask) < 0)
		return -errno;
	return hwloc_bitmap_from_ulongs(ret_cpus, TOPOLOGY_MASK_LONGS, mask) < 0 ? -ENOMEM : 0;
}

int topology_set_affinity(pid_t pid, hwloc_const_bitmap_t cpus)
{
	unsigned long mask[TOPOLOGY_MASK_LONGS];
	int result = topology_mask(cpus, mask);

	if (result < 0)
		return result;
	return sched_setaffinity(pid, sizeof(mask), (const cpu_set_t *)mask) < 0 ? -errno : 0;
}
