/* One task, one set of cores. */
#include "spank/plugin/bind.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

int bind_task(const struct topology *topology, const struct plan *plan, const char *core_list, uint32_t local_task,
              pid_t pid, struct error *error)
{
	cleanup_bitmap hwloc_bitmap_t now = hwloc_bitmap_alloc(), step = hwloc_bitmap_alloc(),
	                              own = hwloc_bitmap_alloc();
	uint32_t cores = plan->cores_per_task;
	int rc;

	if (!now || !step || !own)
		return -ENOMEM;
	rc = topology_get_affinity(pid, now);
	if (rc < 0)
		return error_set(error, rc, "cannot read the affinity of task %u: %s", local_task, strerror(-rc));
	rc = topology_cpus_of(topology, core_list, 0, UINT_MAX, step, error);
	if (rc < 0)
		return rc;
	rc = topology_cpus_of(topology, core_list, local_task * cores, cores, own, error);
	if (rc < 0)
		return rc;
	/* Less than the step's cores: somebody has bound it. */
	if ((uint32_t)rc != cores || !hwloc_bitmap_isincluded(step, now))
		return 0;
	rc = topology_set_affinity(pid, own);
	if (rc < 0)
		return error_set(error, rc, "cannot bind task %u: %s", local_task, strerror(-rc));
	return 1;
}
