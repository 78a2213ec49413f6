/* Reads SPANK items into plain numbers. */
#include "spank/plugin/job.h"

#include <errno.h>
#include <slurm/slurm.h>
#include <string.h>

#include "spank/base/run_directory.h"
#include "spank/policy/wrappers.h"

#define VALUE_MAX 256

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

uint32_t job_number(spank_t spank, enum spank_item item)
{
	uint32_t number = 0;

	return spank_get_item(spank, item, &number) == ESPANK_SUCCESS ? number : 0;
}

int job_task(spank_t spank)
{
	int task = -1;

	return spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && task >= 0 ? task : -1;
}

static void read_cores(spank_t spank, enum spank_item item, char ret_cores[JOB_CORES_MAX])
{
	char *cores = NULL;

	/* A list that fills Slurm's own buffer may have been cut, so it counts as missing. */
	if (spank_get_item(spank, item, &cores) == ESPANK_SUCCESS && cores && strlen(cores) < JOB_CORES_MAX - 1)
		strcpy(ret_cores, cores);
}

/* Reads the command line of a step of srun's. That of a batch step is Slurm's copy of the script. */
static void read_words(spank_t spank, struct job *job)
{
	char **words = NULL;
	int count = 0;

	if (job->facts.kind != STEP_SRUN || spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS ||
	    !words)
		return;
	job->word_count = count;
	job->words = words;
}

static bool has_variable(spank_t spank, const char *name, char value[VALUE_MAX])
{
	value[0] = '\0';
	return spank_getenv(spank, name, value, VALUE_MAX) != ESPANK_ENV_NOEXIST && value[0];
}

int job_read(spank_t spank, struct job *ret_job, struct error *error)
{
	struct job job = {.job_id = 0};
	char value[VALUE_MAX];

	if (spank_get_item(spank, S_JOB_ID, &job.job_id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_STEPID, &job.step_id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_UID, &job.uid) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_GID, &job.gid) != ESPANK_SUCCESS)
		return error_set(error, -EINVAL, "Slurm does not say which job, step and user this is");
	state_step_name(job.step_id, job.step_name);
	job.array_job = job_number(spank, S_JOB_ARRAY_ID);
	job.array_task = job.array_job ? job_number(spank, S_JOB_ARRAY_TASK_ID) : 0;
	job.facts.kind = kind_of(job.step_id);
	job.facts.local_tasks = job_number(spank, S_JOB_LOCAL_TASK_COUNT);
	job.facts.cpus_per_task = job_number(spank, S_STEP_CPUS_PER_TASK);
	read_words(spank, &job);
	/*
	 * srun sets the variable only if the user asked for a binding. In task_init it would already be the final
	 * binding.
	 */
	job.facts.user_bound = (has_variable(spank, "SLURM_CPU_BIND_TYPE", value) && strcmp(value, "quiet") != 0 &&
	                        strcmp(value, "verbose") != 0) ||
	                       wrappers_bind(job.word_count, job.words);
	job.gpu_shards = has_variable(spank, "SLURM_SHARDS_ON_NODE", value);
	read_cores(spank, S_JOB_ALLOC_CORES, job.job_cores);
	read_cores(spank, S_STEP_ALLOC_CORES, job.step_cores);
	*ret_job = job;
	return 0;
}
