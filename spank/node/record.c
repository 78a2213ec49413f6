#include "spank/node/record.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/record/node.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_NOT_WANTED 1 /* the job refused every policy */
#define ENDED             "ended"
#define RUNS_MAX          8 /* of a job whose records wait for slurmdbd */

json_t *node_record_build(const struct state_job *job, const char *name, double end_s,
                          const struct energy_window *energy, const struct energy_share *share,
                          const struct node_steps *steps)
{
	struct record_node node = {
	        .job_id = job->job_id,
	        .array_job_id = job->array_job_id,
	        .array_task_id = job->array_task_id,
	        .het_job_id = job->het_job_id,
	        .het_offset = job->het_offset,
	        .restart_count = job->restart_count,
	        .run = {.known = job->restart_known, .timeless = job->too_late},
	        .uid = job->uid,
	        .gid = job->gid,
	        .nodes = job->nodes,
	        .policy = job->policy,
	        .start_s = job->start_s,
	        .end_s = end_s,
	        .cores = job->cores,
	        .cores_total = job->cores_total,
	        .steps_left_out = steps->left_out,
	        .steps_summed = steps->summed,
	};
	json_t *json;

	snprintf(node.node, sizeof(node.node), "%s", name);
	memcpy(node.cluster, job->cluster, sizeof(node.cluster));
	snprintf(node.energy_why, sizeof(node.energy_why), "%s", energy ? "" : job->energy_why);
	json = record_node_write(&node);
	if (json)
		json_object_set_new(json, "energy", energy ? record_energy_write(energy, share) : json_null());
	return json;
}

static json_t *throttle_now(const struct state_job *job)
{
	struct record_throttle throttle = {.known = false};
	struct throttle now;

	throttle_read(&now);
	throttle.known = throttle_between(&job->throttle, &now, job->cpus, throttle.events);
	return record_throttle_write(&throttle);
}

/* Of the steps' points and the job's ends; NULL where no step was sampled. */
static json_t *power_print(struct power_curve *curve, const struct power_points *ends)
{
	if (curve->count > 0)
		power_curve_add(curve, ends);
	return record_power_write(curve);
}

/* Returns whether there is a window from the job's begin until now; if not, why is filled in. */
static bool window_take(const struct state_place *place, struct state_job *job, struct energy_window *ret_window,
                        struct power_points *ret_ends)
{
	cleanup_close int node = state_open_node(place);
	struct energy_snapshot now;
	struct error error = {0};

	if (!job->has_baseline && !job->energy_why[0])
		strcpy(job->energy_why, "no sample at the job's begin");
	if (!job->has_baseline)
		return false;
	if (node < 0)
		error_set(&error, node, "the node's notes: %s", strerror(-node));
	if (node < 0 || energy_sample(node, &now, &error)) {
		snprintf(job->energy_why, sizeof(job->energy_why), "%.*s", STATE_WHY_MAX - 1, error.text);
		return false;
	}
	energy_between(&job->baseline, &now, ret_window);
	power_add(ret_ends, &job->baseline);
	power_add(ret_ends, &now);
	return true;
}

char *node_record_print(const json_t *record, const struct node_steps *steps)
{
	cleanup_free char *head = memory_text(record, 0);
	char *text = NULL;

	if (!head ||
	    asprintf(&text, "%.*s,\"steps\":[%s]}", (int)strlen(head) - 1, head, steps->text ? steps->text : "") < 0)
		return NULL;
	return text;
}

/* When the epilog was here that could not write the record; 0: none was. */
static double ended_s(int directory)
{
	struct stat status;

	return fstatat(directory, ENDED, &status, AT_SYMLINK_NOFOLLOW) ? 0 : (double)status.st_mtim.tv_sec;
}

/*
 * Under which number of the run the record lies in the outbox: Slurm's, else the first under which no other run's does,
 * which the record says then.
 */
static int key_choose(const struct node_record_end *end, const struct state_job *job, json_t *record,
                      char key[OUTBOX_KEY_MAX], struct error *error)
{
	struct job_run run;

	if (!run_read(record, &run))
		return error_set(error, -ENOMEM, "out of memory");
	for (uint32_t number = job->restart_count; number < job->restart_count + RUNS_MAX; number++) {
		int result = outbox_key(job->cluster, job->job_id, number, key, error);

		if (result)
			return result;
		json_object_set_new(record, "restart_count", json_integer((json_int_t)number));
		if (job->restart_known || outbox_is_free(end->outbox, key, end->place.node, &run))
			return 0;
	}
	return error_set(error, -EEXIST, "%d runs of job %u wait in the outbox", RUNS_MAX, job->job_id);
}

static int record_put(const struct node_record_end *end, int directory, char key[OUTBOX_KEY_MAX], struct error *error)
{
	cleanup_free struct state_job *job = calloc(1, sizeof(*job));
	struct energy_window window;
	struct energy_share share;
	cleanup_steps struct node_steps steps = {.text = NULL};
	struct power_points ends = {0};
	json_auto_t *record = NULL, *power = NULL;
	cleanup_free char *text = NULL;
	double late_s = ended_s(directory);
	unsigned failures = memory_failures();
	bool has_window;
	int result = job ? state_job_read(&end->place, end->job_id, job) : -ENOMEM;

	if (result)
		return error_set(error, result, "state of job %u: %s", end->job_id, strerror(-result));
	if (late_s > 0) { /* what the counters show now others have used too */
		job->has_baseline = false;
		strcpy(job->energy_why, "the record could not be written at the job's end");
	}
	has_window = window_take(&end->place, job, &window, &ends);
	energy_share_read(job->cores, job->cores_total, job->cpus, &share);
	node_steps_read(directory, &share, &steps);
	power = power_print(&steps.curve, &ends);
	if (!job->policy.asked[0] && steps.count == 0 && steps.left_out == 0)
		return RECORD_NOT_WANTED;
	record = node_record_build(job, end->place.node, late_s > 0 ? late_s : clock_wall_s(),
	                           has_window ? &window : NULL, &share, &steps);
	if (record) {
		json_object_set_new(record, "throttle", throttle_now(job));
		json_object_set_new(record, "watts", record_watts_write(&steps.watts, &share));
		if (has_window && power)
			json_object_set(record, "power_mw", power);
		result = key_choose(end, job, record, key, error);
		if (result)
			return result;
		text = node_record_print(record, &steps);
	}
	if (!text || memory_failures() != failures)
		return error_set(error, -ENOMEM, "out of memory");
	return outbox_put(end->outbox, key, end->place.node, text, error);
}

/* That the job is over, for node_record_finish_left. An empty file needs no room. */
static void mark(int directory)
{
	cleanup_close int file = openat(directory, ENDED, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (file < 0)
		log_error("a job's record could not even be left for later: %s", strerror(errno));
}

int node_record_finish(const struct node_record_end *end, struct error *error)
{
	cleanup_close int directory = state_open_job(&end->place, end->job_id);
	char key[OUTBOX_KEY_MAX];
	int result = 0;

	if (directory == -ENOENT)
		return 0;
	if (directory < 0)
		return error_set(error, directory, "state of job %u: %s", end->job_id, strerror(-directory));
	if (end->keep)
		result = record_put(end, directory, key, error);
	if (result < 0) {
		mark(directory);
		return result;
	}
	state_job_remove(&end->place, end->job_id);
	if (end->keep && end->helper && result != RECORD_NOT_WANTED)
		return outbox_writer_start(end->helper, end->argument_count, end->arguments, error);
	return 0;
}

static void left_finish(const struct state_place *place, int node, const char *name, const char *outbox)
{
	struct node_record_end end = {.place = *place, .keep = true, .outbox = outbox};
	cleanup_close int directory = -1;
	struct error error = {0};

	end.job_id = (uint32_t)strtoul(name, NULL, 10);
	directory = name[strspn(name, "0123456789")] ? -1 : files_directory(node, name, 0);
	if (directory >= 0 && ended_s(directory) > 0 && node_record_finish(&end, &error) < 0)
		log_error("job %s: %s", name, error.text);
}

void node_record_finish_left(const char *root, const char *outbox)
{
	cleanup_close int directory = files_directory(AT_FDCWD, root, 0);
	cleanup_closedir DIR *nodes = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;

	while (nodes && (entry = readdir(nodes))) {
		struct state_place place = {.node = ""};
		bool named = files_name_ok(entry->d_name) && strlen(entry->d_name) < sizeof(place.node);
		cleanup_close int node = named ? files_directory(directory, entry->d_name, 0) : -1;
		cleanup_closedir DIR *jobs = node < 0 ? NULL : files_entries(node);
		const struct dirent *job;

		snprintf(place.root, sizeof(place.root), "%s", root);
		snprintf(place.node, sizeof(place.node), "%.*s", (int)sizeof(place.node) - 1, entry->d_name);
		while (jobs && (job = readdir(jobs)))
			left_finish(&place, node, job->d_name, outbox);
	}
}
