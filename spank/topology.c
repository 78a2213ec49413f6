/*
 * hwloc behind four questions. Disallowed CPUs are kept (slurmstepd may itself sit in a cpuset), so that the numbering
 * of cores never depends on who asks.
 */
#include "spank/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc/linux.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "spank/cleanup.h"

struct topology {
	hwloc_topology_t handle;
};

static hwloc_topology_t new_handle(void)
{
	hwloc_topology_t handle;

	if (hwloc_topology_init(&handle) < 0)
		return NULL;
	hwloc_topology_set_flags(handle, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM);
	/* These open devices, which is slow and none of our business. */
	hwloc_topology_set_components(handle, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "gl");
	hwloc_topology_set_components(handle, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "opencl");
	hwloc_topology_set_components(handle, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "cuda");
	hwloc_topology_set_components(handle, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "nvml");
	return handle;
}

static hwloc_topology_t load_copy(const char *path)
{
	hwloc_topology_t handle;

	if (access(path, R_OK) < 0)
		return NULL;
	handle = new_handle();
	if (!handle)
		return NULL;
	if (hwloc_topology_set_xml(handle, path) < 0 || hwloc_topology_load(handle) < 0) {
		hwloc_topology_destroy(handle);
		return NULL;
	}
	return handle;
}

static hwloc_topology_t load_machine(void)
{
	hwloc_topology_t handle = new_handle();

	if (handle && hwloc_topology_load(handle) < 0) {
		hwloc_topology_destroy(handle);
		return NULL;
	}
	return handle;
}

/* <directory>/topology-<boot id>.xml, or "" where there is no boot id. */
static void copy_path(const char *directory, char *path, size_t size)
{
	cleanup_fclose FILE *stream = fopen("/proc/sys/kernel/random/boot_id", "re");
	char boot[40] = "";

	path[0] = '\0';
	if (!directory[0] || !stream || !fgets(boot, sizeof(boot), stream))
		return;
	boot[strspn(boot, "0123456789abcdef-")] = '\0';
	if (snprintf(path, size, "%s/topology-%s.xml", directory, boot) >= (int)size)
		path[0] = '\0';
}

static void save_copy(hwloc_topology_t handle, const char *path)
{
	char temporary[PATH_MAX];

	if (snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid()) >= (int)sizeof(temporary))
		return;
	if (hwloc_topology_export_xml(handle, temporary, 0) < 0 || rename(temporary, path) < 0)
		unlink(temporary);
}

int topology_load(const char *cache_directory, struct topology **ret_topology, struct error *error)
{
	cleanup_free struct topology *topology = calloc(1, sizeof(*topology));
	char path[PATH_MAX];

	if (!topology)
		return error_set(error, -ENOMEM, "no memory for the topology");
	copy_path(cache_directory, path, sizeof(path));
	topology->handle = path[0] ? load_copy(path) : NULL;
	if (!topology->handle) {
		topology->handle = load_machine();
		if (!topology->handle)
			return error_set(error, -EIO, "hwloc cannot read this machine's topology");
		if (path[0])
			save_copy(topology->handle, path);
	}
	*ret_topology = take_pointer(topology);
	return 0;
}

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	hwloc_topology_destroy(topology->handle);
	free(topology);
}

unsigned topology_cores(const struct topology *topology)
{
	int count = hwloc_get_nbobjs_by_type(topology->handle, HWLOC_OBJ_CORE);

	return count > 0 ? (unsigned)count : 0;
}

unsigned topology_cpu_limit(const struct topology *topology)
{
	int last = hwloc_bitmap_last(hwloc_topology_get_complete_cpuset(topology->handle));

	return last >= 0 ? (unsigned)last + 1 : 0;
}

int topology_core_of(const struct topology *topology, unsigned cpu)
{
	hwloc_obj_t object = hwloc_get_pu_obj_by_os_index(topology->handle, cpu);

	while (object && object->type != HWLOC_OBJ_CORE)
		object = object->parent;
	return object ? (int)object->logical_index : -1;
}

int topology_cpus_of(const struct topology *topology, const char *core_list, unsigned first, unsigned count,
                     hwloc_bitmap_t ret_cpus, struct error *error)
{
	hwloc_bitmap_t cores = hwloc_bitmap_alloc();
	unsigned position = 0;
	int core, taken = 0;

	hwloc_bitmap_zero(ret_cpus);
	if (!cores || !core_list[0] || hwloc_bitmap_list_sscanf(cores, core_list) < 0 ||
	    hwloc_bitmap_weight(cores) <= 0) {
		hwloc_bitmap_free(cores);
		return error_set(error, -EINVAL, "'%.64s' is not a list of cores", core_list);
	}
	hwloc_bitmap_foreach_begin(core, cores)
	{
		hwloc_obj_t object = hwloc_get_obj_by_type(topology->handle, HWLOC_OBJ_CORE, (unsigned)core);

		if (!object) {
			hwloc_bitmap_free(cores);
			return error_set(error, -EINVAL, "core %d is allocated, but this machine has %u cores", core,
			                 topology_cores(topology));
		}
		if (position >= first && position - first < count) {
			hwloc_bitmap_or(ret_cpus, ret_cpus, object->cpuset);
			taken++;
		}
		position++;
	}
	hwloc_bitmap_foreach_end();
	hwloc_bitmap_free(cores);
	return taken;
}

int topology_get_affinity(const struct topology *topology, pid_t pid, hwloc_bitmap_t ret_cpus)
{
	return hwloc_linux_get_tid_cpubind(topology->handle, pid, ret_cpus) < 0 ? -errno : 0;
}

int topology_set_affinity(const struct topology *topology, pid_t pid, hwloc_const_bitmap_t cpus)
{
	return hwloc_linux_set_tid_cpubind(topology->handle, pid, cpus) < 0 ? -errno : 0;
}
