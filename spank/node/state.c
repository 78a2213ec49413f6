#include "spank/node/state.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define JOB_FILE_MAX (256 * 1024)
#define ABANDONED_S  (30 * 24 * 3600)
#define LOCK_WAIT_MS 10000 /* no step waits longer for what it can do without */

void state_job_init(uint32_t job_id, struct state_job *ret_job)
{
	memset(ret_job, 0, sizeof(*ret_job));
	ret_job->job_id = job_id;
	ret_job->array_job_id = ret_job->array_task_id = STATE_NONE;
	ret_job->het_job_id = ret_job->het_offset = STATE_NONE;
}

static int job_load(int directory, struct state_job *ret_job)
{
	json_auto_t *json = NULL;
	int result = files_read_json(directory, "job.json", JOB_FILE_MAX, &json);

	return result ? result : state_job_from_json(json, ret_job);
}

int state_job_read(const struct state_place *place, uint32_t job_id, struct state_job *ret_job)
{
	cleanup_close int directory = state_open_job(place, job_id);

	return directory < 0 ? directory : job_load(directory, ret_job);
}

static int job_store(int directory, const struct state_job *job)
{
	unsigned failures = memory_failures();
	json_auto_t *json = state_job_to_json(job);

	if (!json || memory_failures() != failures)
		return -ENOMEM;
	return files_write_json(directory, "job.json", 0600, json, false);
}

static void directory_empty(int directory)
{
	cleanup_closedir DIR *entries = files_entries(directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(directory, entry->d_name, 0);
}

static void job_remove(int node, const char *name)
{
	cleanup_close int directory = files_directory(node, name, 0);

	if (directory < 0)
		return;
	directory_empty(directory);
	unlinkat(node, name, AT_REMOVEDIR);
}

void state_job_remove(const struct state_place *place, uint32_t job_id)
{
	cleanup_close int node = state_open_node(place);
	char name[16];

	if (node < 0)
		return;
	snprintf(name, sizeof(name), "%" PRIu32, job_id);
	job_remove(node, name);
}

/* Only what no job can still use: nothing was written there for a month, and every sampler writes each few seconds. */
static void sweep_abandoned(int node)
{
	cleanup_closedir DIR *entries = files_entries(node);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		struct stat status;

		if (strspn(entry->d_name, "0123456789") == strlen(entry->d_name) &&
		    fstatat(node, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode) &&
		    status.st_mtime + ABANDONED_S < time(NULL))
			job_remove(node, entry->d_name);
	}
}

static void baseline_take(int node, struct state_job *job)
{
	struct error error = {0};
	struct rapl *rapl = NULL;

	job->has_baseline =
	        rapl_open(&rapl, &error) == 0 && energy_update(node, rapl, NULL, &job->baseline, &error) == 0;
	if (!job->has_baseline)
		snprintf(job->energy_why, sizeof(job->energy_why), "%.*s", STATE_WHY_MAX - 1, error.text);
	rapl_close(rapl);
	throttle_read(&job->throttle);
}

static void job_fill(struct state_job *job, const struct state_job *facts)
{
	if (job->array_job_id == STATE_NONE) {
		job->array_job_id = facts->array_job_id;
		job->array_task_id = facts->array_task_id;
	}
	if (job->het_job_id == STATE_NONE) {
		job->het_job_id = facts->het_job_id;
		job->het_offset = facts->het_offset;
	}
	if (facts->restart_known && !job->restart_known) {
		job->restart_count = facts->restart_count;
		job->restart_known = true;
	}
	job->shared_cores |= facts->shared_cores;
	if (job->cores == 0)
		job->cores = facts->cores;
	if (job->cores_total == 0)
		job->cores_total = facts->cores_total;
	if (!job->cluster[0])
		memcpy(job->cluster, facts->cluster, sizeof(job->cluster));
	if (!job->nodes[0])
		memcpy(job->nodes, facts->nodes, sizeof(job->nodes));
	if (!job->cpus[0])
		memcpy(job->cpus, facts->cpus, sizeof(job->cpus));
	if (!job->policy.asked[0])
		job->policy = facts->policy;
	if (!job->words[0])
		memcpy(job->words, facts->words, sizeof(job->words));
}

static int job_begin(const struct state_place *place, int directory, const struct state_job *facts, bool anew)
{
	cleanup_free struct state_job *job = calloc(1, sizeof(*job));
	cleanup_close int node = -1;
	int result;

	if (!job)
		return -ENOMEM;
	result = anew ? -ENOENT : job_load(directory, job);
	if (result == 0) {
		job_fill(job, facts);
		return job_store(directory, job);
	}
	/* what is merely not read must not be begun anew: other steps have written there */
	if (!files_is_bad(result))
		return result;
	node = state_open_node(place);
	if (node < 0)
		return node;
	directory_empty(directory);
	*job = *facts;
	job->start_s = clock_wall_s();
	if (!facts->too_late)
		baseline_take(node, job);
	sweep_abandoned(node);
	return job_store(directory, job);
}

int state_job_begin(const struct state_place *place, const struct state_job *facts, bool anew, struct error *error)
{
	cleanup_close int directory = state_make_job(place, facts->job_id, 0700);
	int result;

	if (directory < 0)
		return error_set(error, directory, "\"%s/%s/%" PRIu32 "\": %s", place->root, place->node, facts->job_id,
		                 strerror(-directory));
	/* stepds of one job begin at the same time */
	result = files_lock(directory, LOCK_WAIT_MS);
	if (result)
		return error_set(error, result, "lock of job %" PRIu32 ": %s", facts->job_id, strerror(-result));
	result = job_begin(place, directory, facts, anew);
	files_unlock(directory);
	return result ? error_set(error, result, "state of job %" PRIu32 ": %s", facts->job_id, strerror(-result)) : 0;
}
