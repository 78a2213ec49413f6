#include "spank/node/state.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/json.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/base/text.h"
#include "spank/node/meters_ask.h"
#include "spank/record/parts/csv.h"
#include "spank/record/parts/policy.h"
#include "spank/record/waits/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define JOB_FILE_MAX   (256 * 1024)
#define ABANDONED_S    (30 * 24 * 3600)
#define STALE_S        (24 * 3600) /* a temporary file older than this has no writer */
#define CROWD_JOBS     16          /* jobs up to this number have the whole room each */
#define RUNS_MAX       8           /* ended runs of one job that may lack their record */
#define LOCK_WAIT_MS   10000       /* a step waits no longer for something that it can do without */
#define FORMAT_VERSION 1
#define COUNT_FILE     "steps_counted"
#define COUNT_MAX      10000000     /* steps, which are bytes of the file */
#define WHOLE_BYTES    (128 * 1024) /* bytes of a step's file with details; no honest step comes near */
#define SUMS_BYTES     4096         /* bytes of a step's file with sums: tmpfs takes a page in any case */

void state_job_init(uint32_t job_id, struct state_job *ret_job)
{
	memset(ret_job, 0, sizeof(*ret_job));
	ret_job->job_id = job_id;
	ret_job->array_job_id = ret_job->array_task_id = STATE_NONE;
	ret_job->het_job_id = ret_job->het_offset = STATE_NONE;
}

int state_job_load(int directory, struct state_job *ret_job)
{
	json_auto_t *json = NULL;
	int result = files_read_json(directory, "job.json", JOB_FILE_MAX, &json);

	return result ? result : state_job_from_json(json, ret_job);
}

int state_job_read(const struct run_directory *run_directory, uint32_t job_id, struct state_job *ret_job)
{
	cleanup_close int directory = run_directory_open_job(run_directory, job_id);

	return directory < 0 ? directory : state_job_load(directory, ret_job);
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

/* Returns true if `name` is the name of the open directory. */
static bool is_name_of(int node, const char *name, int directory)
{
	struct stat opened, named;

	return fstat(directory, &opened) == 0 && fstatat(node, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

int state_directory_remove(int node, const char *name, int directory)
{
	directory_empty(directory);
	if (!is_name_of(node, name, directory) || unlinkat(node, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return -errno;
}

/* As state_directory_remove for a directory that is not open yet. */
static void name_remove(int node, const char *name)
{
	cleanup_close int directory = files_directory(node, name, 0);

	if (directory >= 0)
		state_directory_remove(node, name, directory);
}

void state_job_remove(const struct run_directory *run_directory, uint32_t job_id)
{
	cleanup_close int node = run_directory_open_node(run_directory);
	char name[STATE_NAME_MAX];

	if (node < 0)
		return;
	snprintf(name, sizeof(name), "%" PRIu32, job_id);
	name_remove(node, name);
}

uint32_t state_name_job(const char *name)
{
	size_t length = strspn(name, JSON_DIGITS);
	uint64_t job_id;
	char number[STATE_NAME_MAX];

	if (length >= sizeof(number) || strlen(name) >= STATE_NAME_MAX ||
	    (name[length] &&
	     (name[length] != '.' || !name[length + 1] || !characters_ok(name + length + 1, JSON_DIGITS))))
		return 0;
	snprintf(number, sizeof(number), "%.*s", (int)length, name);
	return text_number(number, STATE_NONE - 1, &job_id) ? (uint32_t)job_id : 0;
}

/*
 * Returns true if the job began long ago in this boot, by a clock that cannot be set. A state without that time counts
 * as begun at boot.
 */
static bool began_long_ago(int node, const char *name)
{
	cleanup_close int directory = files_directory(node, name, 0);
	json_auto_t *json = NULL;
	uint64_t begun_ns = 0;

	if (directory >= 0 && files_read_json(directory, "job.json", JOB_FILE_MAX, &json) == 0)
		integer_get(json, "begun_ns", INT64_MAX, &begun_ns);
	return clock_ns(CLOCK_BOOTTIME) - begun_ns > ABANDONED_S * SECOND_NS;
}

/* Returns true for names like ".energy.4711" (files_write) and "topology-1b2c-0-3.xml.4711" (machine/topology.c). */
static bool is_temporary(const char *name)
{
	const char *end = strrchr(name, '.');

	return (name[0] == '.' || strncmp(name, "topology-", 9) == 0) && end && end > name && end[1] &&
	       characters_ok(end + 1, JSON_DIGITS);
}

/*
 * Removes states that no job can still use: nothing was written there for a month, while every sampler writes each few
 * seconds. The time of day may have jumped, so that a clock which cannot be set must agree. Removes temporary files
 * that killed writers have left.
 */
static void sweep_abandoned(int node)
{
	cleanup_closedir DIR *entries = files_entries(node);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		bool is_job = state_name_job(entry->d_name) > 0;
		struct stat status;

		if ((!is_job && !is_temporary(entry->d_name)) ||
		    fstatat(node, entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
			continue;
		if (is_job && S_ISDIR(status.st_mode) && status.st_mtime + ABANDONED_S < time(NULL) &&
		    began_long_ago(node, entry->d_name))
			name_remove(node, entry->d_name);
		if (!is_job && status.st_mtime + STALE_S < time(NULL))
			unlinkat(node, entry->d_name, 0);
	}
}

int state_set_apart(int node, uint32_t job_id)
{
	char name[STATE_NAME_MAX], apart[2 * STATE_NAME_MAX];
	int result = -EEXIST;

	snprintf(name, sizeof(name), "%" PRIu32, job_id);
	for (int run = 1; run <= RUNS_MAX && result == -EEXIST; run++) {
		snprintf(apart, sizeof(apart), "%s.%d", name, run);
		result = renameat2(node, name, node, apart, RENAME_NOREPLACE) ? -errno : 0;
	}
	return result;
}

/* Sets apart the state of an earlier run, if the epilog died before it could do so. */
static void keep_ended(const struct run_directory *run_directory, uint32_t job_id)
{
	cleanup_close int node = run_directory_open_node(run_directory),
	                  directory = run_directory_open_job(run_directory, job_id);
	int result;

	if (directory < 0 || faccessat(directory, STATE_ENDED, F_OK, AT_SYMLINK_NOFOLLOW))
		return;
	result = state_set_apart(node, job_id);
	if (result)
		log_error("job %" PRIu32 ": cannot set an earlier run apart: %s; its record is lost", job_id,
		          strerror(-result));
}

/* Reads all counters as they are when the job begins. */
static void baseline_take(int node, bool asks_gpus, struct state_job *job)
{
	struct error error = {0};

	job->has_baseline = energy_sample(node, &job->baseline, &error) == 0;
	if (!job->has_baseline)
		snprintf(job->energy_why, sizeof(job->energy_why), "%.*s", STATE_WHY_MAX - 1, error.text);
	throttle_read(&job->throttle);
	meters_ask(node, &(struct meters_wanted){job->sources, asks_gpus}, &job->meters);
}

/* Adds those facts that the job's state lacks yet. Known facts stay. */
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
	job->gpus |= facts->gpus;
	job->alone |= facts->alone;
	if (!job->sources[0])
		memcpy(job->sources, facts->sources, sizeof(job->sources));
	if (!job->gpu_list[0] || strcmp(facts->gpu_list, RECORD_GPUS_PARTS) == 0)
		memcpy(job->gpu_list, facts->gpu_list, sizeof(job->gpu_list));
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
	if (!job->usable[0])
		memcpy(job->usable, facts->usable, sizeof(job->usable));
	if (!job->policy.asked[0])
		job->policy = facts->policy;
	if (!job->words[0])
		memcpy(job->words, facts->words, sizeof(job->words));
}

/* Makes the job's state, or adds facts to the one that is there. The caller has locked the job's directory. */
static int job_begin(const struct run_directory *run_directory, int directory, const struct state_job *facts, bool anew)
{
	cleanup_free struct state_job *job = calloc(1, sizeof(*job));
	cleanup_close int node = -1;
	int result;

	if (!job)
		return -ENOMEM;
	result = anew ? -ENOENT : state_job_load(directory, job);
	if (result == 0) {
		job_fill(job, facts);
		return job_store(directory, job);
	}
	/* a state that could not be read must stay: other steps have written there */
	if (!files_is_bad(result))
		return result;
	node = run_directory_open_node(run_directory);
	if (node < 0)
		return node;
	directory_empty(directory);
	*job = *facts;
	job->start_s = clock_wall_s();
	job->begun_ns = clock_ns(CLOCK_BOOTTIME);
	/* the prolog knows which jobs have no graphics processors, and then asks none */
	if (!facts->too_late)
		baseline_take(node, job->gpus || !anew, job);
	sweep_abandoned(node);
	return job_store(directory, job);
}

int state_job_begin(const struct run_directory *run_directory, const struct state_job *facts, bool anew,
                    struct error *error)
{
	cleanup_close int directory = -1;
	int result;

	if (anew)
		keep_ended(run_directory, facts->job_id);
	directory = run_directory_make_job(run_directory, facts->job_id, 0700);

	if (directory < 0)
		return error_set(error, directory, "\"%s/%s/%" PRIu32 "\": %s", run_directory->root,
		                 run_directory->node, facts->job_id, strerror(-directory));
	/* slurmstepds of one job begin at the same time */
	result = files_lock(directory, LOCK_WAIT_MS);
	if (result)
		return error_set(error, result, "lock of job %" PRIu32 ": %s", facts->job_id, strerror(-result));
	result = job_begin(run_directory, directory, facts, anew);
	files_unlock(directory);
	return result ? error_set(error, result, "state of job %" PRIu32 ": %s", facts->job_id, strerror(-result)) : 0;
}

/* The numbers of job.json, for writing and reading. */
#define JOB_NUMBERS(row)                                                                                             \
	row(job_id) row(array_job_id) row(array_task_id) row(het_job_id) row(het_offset) row(restart_count) row(uid) \
	        row(gid) row(cores) row(cores_total)

json_t *state_job_to_json(const struct state_job *job)
{
	json_t *json = json_pack(
	        "{s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:f, s:s, s:o, s:b, s:b, s:b, s:s, s:s, s:o*, s:o*, s:o*, s:o*}",
	        "v", FORMAT_VERSION, "cluster", job->cluster, "nodes", job->nodes, "cpus", job->cpus, "usable",
	        job->usable, "words", job->words, "policy", record_policy_write(&job->policy), "start_s", job->start_s,
	        "energy_why", job->energy_why, "throttle", throttle_to_json(&job->throttle), "restart_known",
	        (int)job->restart_known, "too_late", (int)job->too_late, "gpus", (int)job->gpus, "gpu_list",
	        job->gpu_list, "sources", job->sources, "shared_cores", job->shared_cores ? json_true() : NULL, "alone",
	        job->alone ? json_true() : NULL, "baseline", job->has_baseline ? energy_to_json(&job->baseline) : NULL,
	        "meters", meters_to_json_some(&job->meters));

#define SET(field) json_object_set_new(json, #field, json_integer((json_int_t)job->field));
	JOB_NUMBERS(SET)
#undef SET
	json_object_set_new(json, "begun_ns", json_integer((json_int_t)job->begun_ns));
	return json;
}

int state_job_from_json(const json_t *json, struct state_job *ret_job)
{
	cleanup_free struct state_job *job = calloc(1, sizeof(*job));
	const json_t *baseline = json_object_get(json, "baseline");
	uint32_t version = 0;

	if (!job)
		return -ENOMEM;
	if (!integer32_get(json, "v", &version) || version != FORMAT_VERSION)
		return -EBADMSG;
#define GET(field)                                     \
	if (!integer32_get(json, #field, &job->field)) \
		return -EBADMSG;
	JOB_NUMBERS(GET)
#undef GET
	if (!text_get(json, "cluster", job->cluster, sizeof(job->cluster), NULL) ||
	    !text_get(json, "nodes", job->nodes, sizeof(job->nodes), NULL) ||
	    !text_get(json, "words", job->words, sizeof(job->words), NULL) || !record_policy_read(json, &job->policy) ||
	    !number_get(json, "start_s", RECORD_NODE_TIME_MAX, &job->start_s) ||
	    !text_get(json, "energy_why", job->energy_why, sizeof(job->energy_why), NULL))
		return -EBADMSG;
	/* 0.1.0 did not write these: a job may last longer than the release in which it began */
	if (!text_maybe(json, "cpus", job->cpus, sizeof(job->cpus), NULL) ||
	    !text_maybe(json, "usable", job->usable, sizeof(job->usable), NULL) ||
	    !text_maybe(json, "sources", job->sources, sizeof(job->sources), NULL) ||
	    !text_maybe(json, "gpu_list", job->gpu_list, sizeof(job->gpu_list), NULL) ||
	    !integer_maybe(json, "begun_ns", INT64_MAX, &job->begun_ns))
		return -EBADMSG;
	job->restart_known = json_is_true(json_object_get(json, "restart_known"));
	job->too_late = json_is_true(json_object_get(json, "too_late"));
	job->gpus = json_is_true(json_object_get(json, "gpus"));
	job->shared_cores = json_is_true(json_object_get(json, "shared_cores"));
	job->alone = json_is_true(json_object_get(json, "alone"));
	throttle_from_json(json_object_get(json, "throttle"), &job->throttle);
	meters_from_json(json_object_get(json, "meters"), &job->meters);
	job->has_baseline = baseline && energy_from_json(baseline, &job->baseline) == 0;
	*ret_job = *job;
	return 0;
}

uint32_t state_crowd(int node_directory)
{
	cleanup_closedir DIR *entries = files_entries(node_directory);
	const struct dirent *entry;
	uint32_t jobs = 0;

	while (entries && (entry = readdir(entries)))
		jobs += state_name_job(entry->d_name) > 0;
	return (jobs + CROWD_JOBS - 1) / CROWD_JOBS + (jobs == 0);
}

enum state_step_kind state_step_kind(uint32_t step_id, uint32_t crowd)
{
	uint32_t most = STATE_STEPS_MAX / crowd;

	if (step_id < STATE_STEPS_WHOLE || step_id == STATE_STEP_EXTERN || step_id == STATE_STEP_BATCH ||
	    step_id == STATE_STEP_INTERACTIVE)
		return STATE_STEP_WHOLE;
	return step_id < most ? STATE_STEP_SUMS : STATE_STEP_COUNTED;
}

/* Returns the most bytes of a step's file. */
static size_t step_most(uint32_t step_id, uint32_t crowd)
{
	size_t most = WHOLE_BYTES / crowd;

	return state_step_kind(step_id, crowd) == STATE_STEP_WHOLE && most > SUMS_BYTES ? most : SUMS_BYTES;
}

/* Appends one byte to the file of counted steps. Appending needs no lock among steps that begin at the same time. */
int state_step_count(int job_directory)
{
	const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
	cleanup_close int file = openat(job_directory, COUNT_FILE, flags, 0600);

	if (file < 0)
		return -errno;
	return state_steps_counted(job_directory) >= COUNT_MAX || write(file, "+", 1) == 1 ? 0 : -EIO;
}

uint32_t state_steps_counted(int job_directory)
{
	struct stat status;

	return fstatat(job_directory, COUNT_FILE, &status, AT_SYMLINK_NOFOLLOW) ? 0 : (uint32_t)status.st_size;
}

static json_t *step_to_json(const struct state_step *step, json_t *wait, json_t *grant)
{
	return json_pack("{s:i, s:I, s:o, s:f, s:f, s:O?, s:O?, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*}", "v",
	                 FORMAT_VERSION, "id", (json_int_t)step->step_id, "policy", record_policy_write(&step->policy),
	                 "start_s", step->start_s, "end_s", step->end_s, "wait", wait, "grant", grant, "csv",
	                 step->csv != CSV_NONE ? record_csv_write(step->csv) : NULL, "missed",
	                 record_missed_print(&step->missed), "power", step->power ? power_to_json(step->power) : NULL,
	                 "saving", step->saving ? saving_to_json(step->saving) : NULL, "from",
	                 step->has_energy ? energy_to_json(&step->from) : NULL, "to",
	                 step->has_energy ? energy_to_json(&step->to) : NULL);
}

/* Returns the step's text, with less and less detail until it is short enough. */
static char *step_print(const struct state_step *step, uint32_t crowd, json_t *wait, json_t *grant)
{
	static void (*const shorten[])(json_t * wait) = {record_wait_shorten, record_wait_least};
	bool whole = state_step_kind(step->step_id, crowd) == STATE_STEP_WHOLE;
	size_t most = step_most(step->step_id, crowd);
	json_auto_t *json = NULL;
	char *text;

	if (!whole)
		record_wait_shorten(wait);
	json = step_to_json(step, wait, grant);
	if (!whole) {
		json_object_del(json, "power");
		json_object_del(json, "saving");
	}
	text = json ? memory_text(json, 0) : NULL;
	for (size_t i = 0; i < 2 && text && strlen(text) > most; i++) {
		free(text);
		shorten[i](wait);
		if (!whole || i > 0) {
			json_object_del(json, "power");
			json_object_del(json, "saving");
		}
		text = memory_text(json, 0);
	}
	return text;
}

int state_step_write(int job_directory, const struct state_step *step, uint32_t crowd, json_t *wait, json_t *grant)
{
	char id[16], name[32];
	unsigned failures = memory_failures();
	cleanup_free char *text = step_print(step, crowd, wait, grant);

	state_step_name(step->step_id, id);
	snprintf(name, sizeof(name), "step.%s.json", id);
	if (!text || memory_failures() != failures)
		return -ENOMEM;
	return files_write(job_directory, name, 0600, text, strlen(text), false);
}

int state_step_from_json(const json_t *json, struct state_step *ret_step)
{
	const json_t *from = json_object_get(json, "from"), *to = json_object_get(json, "to");
	struct state_step step = {0};
	uint32_t version = 0;

	if (!integer32_get(json, "v", &version) || version != FORMAT_VERSION ||
	    !integer32_get(json, "id", &step.step_id) || !record_policy_read(json, &step.policy) ||
	    !number_get(json, "start_s", RECORD_NODE_TIME_MAX, &step.start_s) ||
	    !number_get(json, "end_s", RECORD_NODE_TIME_MAX, &step.end_s))
		return -EBADMSG;
	step.has_energy = from && to && energy_from_json(from, &step.from) == 0 && energy_from_json(to, &step.to) == 0;
	*ret_step = step;
	return 0;
}
