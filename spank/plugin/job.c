/* SPANK items to plain numbers. */
#include "spank/plugin/job.h"

#include <errno.h>
#include <limits.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/process/config.h"

static enum step_kind kind_of(uint32_t step_id)
{
	switch (step_id) {
	case SLURM_BATCH_SCRIPT:
		return STEP_BATCH;
	case SLURM_EXTERN_CONT:
		return STEP_EXTERN;
	case SLURM_INTERACTIVE_STEP:
		return STEP_INTERACTIVE;
	default:
		return STEP_SRUN;
	}
}

static void read_cores(spank_t spank, enum spank_item item, char ret_cores[JOB_CORES_MAX])
{
	char *cores = NULL;

	ret_cores[0] = '\0';
	/* A list that fills Slurm's own buffer may have been cut: as good as none. */
	if (spank_get_item(spank, item, &cores) == ESPANK_SUCCESS && cores && strlen(cores) < JOB_CORES_MAX - 1)
		snprintf(ret_cores, JOB_CORES_MAX, "%s", cores);
}

static uint32_t read_number(spank_t spank, enum spank_item item)
{
	uint32_t number = 0;

	return spank_get_item(spank, item, &number) == ESPANK_SUCCESS ? number : 0;
}

static bool is_user_bound(spank_t spank)
{
	char type[256] = "";

	/* Set by srun only when a binding was asked for; later, in task_init, it would be the final one. */
	return spank_getenv(spank, "SLURM_CPU_BIND_TYPE", type, sizeof(type)) != ESPANK_ENV_NOEXIST && type[0] &&
	       strcmp(type, "quiet") != 0 && strcmp(type, "verbose") != 0;
}

/* Whether srun was told one: the frequency and the governor are the user's, within what Slurm has set already. */
static bool has_frequency(spank_t spank)
{
	char request[128] = "";

	return spank_getenv(spank, "SLURM_CPU_FREQ_REQ", request, sizeof(request)) != ESPANK_ENV_NOEXIST && request[0];
}

int job_read(spank_t spank, struct job *ret_job, struct error *error)
{
	struct job job = {.cpus_per_task = 1};
	uid_t uid;
	gid_t gid;

	if (spank_get_item(spank, S_JOB_ID, &job.job_id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_STEPID, &job.step_id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_GID, &gid) != ESPANK_SUCCESS)
		return error_set(error, -EINVAL, "Slurm does not say which job, step and user this is");
	job.uid = uid;
	job.gid = gid;
	job.kind = kind_of(job.step_id);
	job.array_job = read_number(spank, S_JOB_ARRAY_ID);
	job.array_task = job.array_job ? read_number(spank, S_JOB_ARRAY_TASK_ID) : 0;
	job.nodes = read_number(spank, S_JOB_NNODES);
	job.node_index = read_number(spank, S_JOB_NODEID);
	job.local_tasks = read_number(spank, S_JOB_LOCAL_TASK_COUNT);
	job.cpus_per_task = read_number(spank, S_STEP_CPUS_PER_TASK);
	read_cores(spank, S_JOB_ALLOC_CORES, job.job_cores);
	read_cores(spank, S_STEP_ALLOC_CORES, job.step_cores);
	job.user_bound = is_user_bound(spank);
	job.user_frequency = has_frequency(spank);
	*ret_job = job;
	return 0;
}

/* Appends the local tasks' numbers in the step as ranges. Returns whether all could be said. */
static bool tasks_print(spank_t spank, uint32_t local_tasks, char *text, size_t size)
{
	size_t used = 0, ranges = 0;

	for (uint32_t i = 0; i < local_tasks && used < size;) {
		uint32_t first, last, next;

		if (spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, i, &first) != ESPANK_SUCCESS ||
		    ++ranges > CONFIG_NEAR_MAX)
			return false;
		last = first;
		while (++i < local_tasks &&
		       spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, i, &next) == ESPANK_SUCCESS && next == last + 1)
			last = next;
		used += (size_t)snprintf(text + used, size - used, "%s%u-%u", used ? "," : "", first, last);
	}
	return used > 0 && used < size;
}

void job_near(spank_t spank, const struct job *job, char ret_near[JOB_NEAR_MAX])
{
	uint32_t tasks = read_number(spank, S_JOB_TOTAL_TASK_COUNT), task;
	int used;

	ret_near[0] = '\0';
	if (job->kind != STEP_SRUN || tasks <= job->local_tasks ||
	    spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS)
		return;
	used = snprintf(ret_near, JOB_NEAR_MAX, ";near=%u:%u:", tasks, task);
	if (!tasks_print(spank, job->local_tasks, ret_near + used, JOB_NEAR_MAX - (size_t)used))
		ret_near[0] = '\0';
}

void job_groups(spank_t spank, gid_t **ret_groups, size_t *ret_count)
{
	gid_t *groups = NULL;
	int count = 0;

	if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &count) != ESPANK_SUCCESS || !groups ||
	    count <= 0 || count > NGROUPS_MAX)
		return;
	free(*ret_groups);
	*ret_groups = malloc((size_t)count * sizeof(gid_t));
	*ret_count = *ret_groups ? (size_t)count : 0;
	if (*ret_groups)
		memcpy(*ret_groups, groups, (size_t)count * sizeof(gid_t));
}
