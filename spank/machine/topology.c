/*
 * hwloc behind a few questions. Disallowed CPUs are kept (slurmstepd may itself sit in a cpuset), so that the numbering
 * of cores never depends on who asks. What is needed is copied and hwloc let go of at once: its plugins stay out of
 * slurmstepd, and whoever else uses hwloc there, PMIx for one, gets them as if we had not been.
 */
#include "spank/machine/topology.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/files.h"
#include "spank/base/proc.h"

#define PLUGINS_PATH "HWLOC_PLUGINS_PATH"

struct topology {
	unsigned cores;
	unsigned cpu_limit;
	hwloc_bitmap_t core[]; /* its CPUs, by hwloc's logical index */
};

/* The machine's, or that of a copy (path). */
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

/* <directory>/topology-<boot id>.xml, or "" where there is no boot id. */
static void copy_path(const char *directory, char *path, size_t size)
{
	char boot[PROC_BOOT_MAX];

	if (!directory[0] || proc_boot_read(boot) ||
	    snprintf(path, size, "%s/topology-%s.xml", directory, boot) >= (int)size)
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
	return topology;
}

/*
 * Without plugins: they load the libraries of displays and of OpenCL, whose drivers have no business in root's
 * slurmstepd and take longer than all the rest. hwloc has no other way to be told than the environment.
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

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	for (unsigned i = 0; i < topology->cores; i++)
		hwloc_bitmap_free(topology->core[i]);
	free(topology);
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
	if (!cores || !core_list[0] || hwloc_bitmap_list_sscanf(cores, core_list) < 0 ||
	    hwloc_bitmap_weight(cores) <= 0)
		return error_set(error, -EINVAL, "'%.64s' is not a list of cores", core_list);
	hwloc_bitmap_foreach_begin(core, cores)
	{
		if ((unsigned)core >= topology->cores)
			return error_set(error, -EINVAL, "core %d is allocated, but this machine has %u cores", core,
			                 topology_cores(topology));
		if (position >= first && position - first < count) {
			hwloc_bitmap_or(ret_cpus, ret_cpus, topology->core[core]);
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
