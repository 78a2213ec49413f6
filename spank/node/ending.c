#include "spank/node/ending.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/json.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/node/meters_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NOTE_MAX    (128 * 1024)
#define VERSION     1
#define SECONDS_MAX 1e11
#define WHOLE_MAX   256  /* waiting records whose steps are kept */
#define ENDED_MAX   4096 /* waiting records in all */
#define ENDS_FILE   ".ends"
#define ENDS_SLOTS  1024 /* ends that are remembered: one by each remainder of a job's number */
#define AGAIN_S     3600 /* an end is remembered for this time: slurmctld is seldom away for longer */

/* A slot of ENDS_FILE: the latest job with this remainder that ended on the node. */
struct end_slot {
	uint32_t job_id;
	uint32_t at_s; /* CLOCK_BOOTTIME, which cannot be set */
};

/* Returns true for the directory of a run that has ended (state_set_apart). */
static bool is_apart(const char *name)
{
	return state_name_job(name) && strchr(name, '.');
}

/*
 * When the job began, and the samples that were taken then. A sample at the end is useless without its counterpart.
 */
struct begun {
	uint64_t at_ns; /* CLOCK_BOOTTIME, which cannot be set; 0: unknown */
	bool energy;
	bool meters;
	bool gpus;
	const char *sources;
};

/* Takes the samples of a job's end whose counterparts were taken at its begin. */
static void ending_take(int node, const struct begun *begun, struct ending *ret_ending)
{
	struct error error = {""};

	*ret_ending = (struct ending){.end_s = clock_wall_s(), .has_throttle = true};
	if (begun->at_ns > 0)
		ret_ending->start_s =
		        ret_ending->end_s - ((double)clock_ns(CLOCK_BOOTTIME) - (double)begun->at_ns) / 1e9;
	throttle_read(&ret_ending->throttle);
	ret_ending->has_sample = begun->energy && energy_sample(node, &ret_ending->sample, &error) == 0;
	if (!ret_ending->has_sample)
		snprintf(ret_ending->why, sizeof(ret_ending->why), "%.*s", STATE_WHY_MAX - 1, error.text);
	if (begun->meters)
		meters_ask(node, &(struct meters_wanted){begun->sources, begun->gpus}, &ret_ending->meters);
}

static int note_write(int directory, const struct ending *ending)
{
	unsigned failures = memory_failures();
	json_auto_t *json =
	        json_pack("{s:i, s:f, s:f, s:s, s:o, s:o*, s:o*}", "v", VERSION, "end_s", ending->end_s, "start_s",
	                  ending->start_s, "why", ending->why, "throttle", throttle_to_json(&ending->throttle),
	                  "sample", ending->has_sample ? energy_to_json(&ending->sample) : NULL, "meters",
	                  meters_to_json_some(&ending->meters));

	if (!json || memory_failures() != failures)
		return -ENOMEM;
	return files_write_json(directory, STATE_ENDED, 0600, json, false);
}

/* Writes an empty note, which needs no room: its date is the job's end. */
static void note_mark(int directory, uint32_t job_id, int reason)
{
	cleanup_close int file = openat(directory, STATE_ENDED, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	log_error("job %" PRIu32 ": cannot note the last sample%s: %s; missing from the record", job_id,
	          file < 0 ? " and the end" : "", strerror(-reason));
}

size_t ending_count(int node)
{
	cleanup_closedir DIR *entries = files_entries(node);
	const struct dirent *entry;
	size_t count = 0;

	while (entries && (entry = readdir(entries)))
		count += is_apart(entry->d_name);
	return count;
}

/* Removes the steps of a job and counts them. */
static void steps_drop(int directory)
{
	cleanup_closedir DIR *entries = files_entries(directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (strncmp(entry->d_name, "step.", 5) == 0 && state_step_count(directory) == 0)
			unlinkat(directory, entry->d_name, 0);
}

static bool has_steps(int directory)
{
	cleanup_closedir DIR *entries = files_entries(directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (strncmp(entry->d_name, "step.", 5) == 0)
			return true;
	return !entries || state_steps_counted(directory) > 0;
}

/* Writes the note; without memory or room an empty one. */
static void note_put(int node, int directory, uint32_t job_id, const struct begun *begun)
{
	cleanup_free struct ending *ending = calloc(1, sizeof(*ending));
	int result = -ENOMEM;

	if (ending) {
		ending_take(node, begun, ending);
		result = note_write(directory, ending);
	}
	if (result)
		note_mark(directory, job_id, result);
}

static void begun_meters(const struct state_job *job, struct begun *ret_begun)
{
	ret_begun->meters = job->meters.count > 0;
	ret_begun->sources = job->sources;
	for (uint32_t i = 0; i < job->meters.count; i++)
		ret_begun->gpus |= meter_is_device(&job->meters.meter[i]);
}

static off_t slot_offset(uint32_t job_id)
{
	return (off_t)(job_id % ENDS_SLOTS * sizeof(struct end_slot));
}

static uint32_t slot_now_s(void)
{
	return (uint32_t)(clock_ns(CLOCK_BOOTTIME) / SECOND_NS);
}

/* Remembers that the job has ended, for ending_is_noted. The record does not need it. */
static void end_remember(int node, uint32_t job_id)
{
	const struct end_slot slot = {job_id, slot_now_s()};
	cleanup_close int file = openat(node, ENDS_FILE, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (file < 0 || pwrite(file, &slot, sizeof(slot), slot_offset(job_id)) != (ssize_t)sizeof(slot))
		log_debug("job %" PRIu32 ": cannot remember its end", job_id);
}

bool ending_is_noted(const struct run_directory *run_directory, uint32_t job_id)
{
	cleanup_close int node = run_directory_open_node(run_directory),
	                  file = node < 0 ? -1 : openat(node, ENDS_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct end_slot slot;

	return file >= 0 && pread(file, &slot, sizeof(slot), slot_offset(job_id)) == (ssize_t)sizeof(slot) &&
	       slot.job_id == job_id && slot_now_s() - slot.at_s < AGAIN_S;
}

/* As ending_note, in the open directories of node and job. */
static int note(const struct run_directory *run_directory, uint32_t job_id, int node, int directory)
{
	cleanup_free struct state_job *job = calloc(1, sizeof(*job));
	bool is_known = job && state_job_load(directory, job) == 0;
	size_t waiting = ending_count(node);
	struct begun begun;
	int result;

	/* a job that refused every policy gets a record only if one of its steps had a policy */
	if (is_known && !job->policy.asked[0] && !has_steps(directory)) {
		state_job_remove(run_directory, job_id);
		return 0;
	}
	if (is_known && !job->too_late)
		end_remember(node, job_id);
	if (waiting >= ENDED_MAX) {
		state_job_remove(run_directory, job_id);
		return -ENOSPC;
	}
	if (waiting >= WHOLE_MAX)
		steps_drop(directory);
	begun = (struct begun){.energy = !is_known || job->has_baseline};
	if (is_known) {
		begun.at_ns = job->begun_ns;
		begun_meters(job, &begun);
	}
	note_put(node, directory, job_id, &begun);
	result = state_set_apart(node, job_id);
	/* -ENOENT: a process that makes records has found the note already, and has removed the state */
	return result && result != -ENOENT ? result : 1;
}

int ending_note(const struct run_directory *run_directory, uint32_t job_id, struct error *error)
{
	cleanup_close int node = run_directory_open_node(run_directory),
	                  directory = run_directory_open_job(run_directory, job_id);
	int result;

	if (directory == -ENOENT)
		return ending_is_noted(run_directory, job_id);
	result = node < 0 ? node : directory;
	if (result >= 0)
		result = note(run_directory, job_id, node, directory);
	if (result == -ENOSPC)
		return error_set(error, result,
		                 "record of job %" PRIu32 " dropped: %d ended jobs wait for their records already",
		                 job_id, ENDED_MAX);
	return result < 0 ? error_set(error, result, "cannot note the end of job %" PRIu32 ": %s", job_id,
	                              strerror(-result))
	                  : result;
}

static int note_parse(const json_t *json, struct ending *ret_ending)
{
	const json_t *sample = json_object_get(json, "sample");
	uint32_t version = 0;

	if (!integer32_get(json, "v", &version) || version != VERSION ||
	    !number_get(json, "end_s", SECONDS_MAX, &ret_ending->end_s) ||
	    !text_get(json, "why", ret_ending->why, sizeof(ret_ending->why), NULL))
		return -EBADMSG;
	if (!number_get(json, "start_s", SECONDS_MAX, &ret_ending->start_s))
		ret_ending->start_s = 0;
	ret_ending->has_throttle = throttle_from_json(json_object_get(json, "throttle"), &ret_ending->throttle) == 0;
	ret_ending->has_sample = sample && energy_from_json(sample, &ret_ending->sample) == 0;
	meters_from_json(json_object_get(json, "meters"), &ret_ending->meters);
	return 0;
}

int ending_read(int job_directory, const char *name, struct ending *ret_ending)
{
	json_auto_t *json = NULL;
	struct stat status;
	int result = files_read_json(job_directory, STATE_ENDED, NOTE_MAX, &json);

	*ret_ending = (struct ending){.why = ""};
	if (!result)
		result = note_parse(json, ret_ending);
	if (!result || !files_is_bad(result))
		return result;
	if (fstatat(job_directory, STATE_ENDED, &status, AT_SYMLINK_NOFOLLOW) &&
	    (!is_apart(name) || fstat(job_directory, &status)))
		return -ENOENT;
	*ret_ending = (struct ending){.end_s = (double)status.st_mtim.tv_sec};
	strcpy(ret_ending->why, "the last sample could not be noted");
	return 0;
}
