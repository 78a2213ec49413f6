/* One task, one set of cores. */
#include "spank/plugin/bind.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

struct sets {
	hwloc_bitmap_t now;
	hwloc_bitmap_t step;
	hwloc_bitmap_t task;
};

static int bind_sets(const struct topology *topology, const struct plan *plan, const char *core_list,
                     uint32_t local_task, pid_t pid, const struct sets *sets, struct error *error)
{
	int rc = topology_get_affinity(pid, sets->now);

	if (rc < 0)
		return error_set(error, rc, "cannot read the affinity of task %u: %s", local_task, strerror(-rc));
	rc = topology_cpus_of(topology, core_list, 0, UINT_MAX, sets->step, error);
	if (rc < 0)
		return rc;
	rc = topology_cpus_of(topology, core_list, local_task * plan->cores_per_task, plan->cores_per_task, sets->task,
	                      error);
	if (rc < 0)
		return rc;
	/* Less than the step's cores: somebody has bound it. */
	if ((uint32_t)rc != plan->cores_per_task || !hwloc_bitmap_isincluded(sets->step, sets->now))
		return 0;
	rc = topology_set_affinity(pid, sets->task);
	if (rc < 0)
		return error_set(error, rc, "cannot bind task %u: %s", local_task, strerror(-rc));
	return 1;
}

int bind_task(const struct topology *topology, const struct plan *plan, const char *core_list, uint32_t local_task,
              pid_t pid, struct error *error)
{
	struct sets sets = {hwloc_bitmap_alloc(), hwloc_bitmap_alloc(), hwloc_bitmap_alloc()};
	int rc = -ENOMEM;

	if (sets.now && sets.step && sets.task)
		rc = bind_sets(topology, plan, core_list, local_task, pid, &sets, error);
	hwloc_bitmap_free(sets.now);
	hwloc_bitmap_free(sets.step);
	hwloc_bitmap_free(sets.task);
	return rc;
}
