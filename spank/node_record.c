#include "spank/node_record.h"

#include "spank/cleanup.h"
#include "spank/files.h"
#include "spank/log.h"
#include "spank/memory.h"
#include "spank/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_NOT_WANTED 1 /* the job refused every policy */
#define ENDED             "ended"
#define OMITTED_MAX       1000000000000000000 /* us, what record_node.c takes */

/* "package-1", and "package-1/dram" for a part of it. */
static json_t *zone_name(const struct energy_window *window, const struct energy_window_zone *zone)
{
	for (uint32_t i = 0; i < window->zone_count; i++)
		if (window->zone[i].kind == RAPL_PACKAGE && window->zone[i].instance == zone->instance &&
		    zone->kind != RAPL_PACKAGE)
			return json_sprintf("%s/%s", window->zone[i].name, zone->name);
	return json_string(zone->name);
}

/* [[zone, why], ...] of the zones that were not whole at the window's end. */
static json_t *dropped_to_json(const struct energy_window *window)
{
	json_t *dropped = json_array();

	for (uint32_t i = 0; i < window->zone_count; i++) {
		const char *why = energy_problem_name(window->zone[i].problem);

		if (why)
			json_array_append_new(dropped, json_pack("[o, s]", zone_name(window, &window->zone[i]), why));
	}
	return dropped;
}

static json_t *window_to_json(const struct energy_window *window, const struct energy_share *share)
{
	uint64_t own_uj;
	json_t *zones = json_object(), *json;

	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (window->has[kind])
			json_object_set_new(zones, rapl_kind_name((enum rapl_kind)kind),
			                    json_integer((json_int_t)window->kind_uj[kind]));
	json = json_pack("{s:s, s:I, s:o, s:o}", "source", window->source, "gaps", (json_int_t)window->gaps, "zones_uj",
	                 zones, "dropped", dropped_to_json(window));
	if (json && energy_share_uj(share, window, &own_uj))
		json_object_set_new(json, "own_uj", json_integer((json_int_t)own_uj));
	return json;
}

/* [rank, wait_us] of the first rank of a list that waits less (sign 1) or more (sign -1) than all others. */
static json_t *extreme(const json_t *ranks, int sign)
{
	const json_t *rank, *best = json_array_get(ranks, 0);
	size_t i;

	json_array_foreach(ranks, i, rank)
	{
		json_int_t difference =
		        json_integer_value(json_array_get(rank, 1)) - json_integer_value(json_array_get(best, 1));

		if (difference * sign < 0)
			best = rank;
	}
	return json_pack("[O, O]", json_array_get(best, 0), json_array_get(best, 1));
}

/* Replaces the list of ranks by what can still be merged when it is gone. */
static void ranks_summarise(json_t *wait)
{
	json_t *ranks = json_object_get(wait, "ranks"), *rank;
	json_int_t wait_us = 0, asleep_us = 0;
	size_t i;

	json_array_foreach(ranks, i, rank)
	{
		wait_us += json_integer_value(json_array_get(rank, 1));
		asleep_us += json_integer_value(json_array_get(rank, 2));
	}
	wait_us = wait_us < OMITTED_MAX ? wait_us : OMITTED_MAX;
	asleep_us = asleep_us < OMITTED_MAX ? asleep_us : OMITTED_MAX;
	json_object_set_new(wait, "omitted",
	                    json_pack("{s:I, s:I, s:I, s:o, s:o}", "count", (json_int_t)json_array_size(ranks),
	                              "wait_us", wait_us, "asleep_us", asleep_us, "min", extreme(ranks, 1), "max",
	                              extreme(ranks, -1)));
	json_object_set_new(wait, "ranks", json_array());
}

/* What the step's file has that no later sum needs to know of. */
static const char *const as_they_are[] = {"grant", "csv"};

static json_t *step_record(const struct state_step *step, const struct energy_share *share, json_t *wait,
                           const json_t *file, size_t *ranks_listed)
{
	char id[16];
	json_t *json;

	state_step_name(step->step_id, id);
	json = json_pack("{s:s, s:f, s:f, s:O?}", "id", id, "start_s", step->start_s, "end_s", step->end_s, "wait",
	                 wait);
	for (size_t i = 0; i < sizeof(as_they_are) / sizeof(as_they_are[0]); i++)
		if (json_object_get(file, as_they_are[i]))
			json_object_set(json, as_they_are[i], json_object_get(file, as_they_are[i]));
	if (step->policy.asked[0])
		json_object_set_new(json, "policy", state_policy_to_json(&step->policy));
	if (step->has_energy) {
		struct energy_window window;

		energy_between(&step->from, &step->to, &window);
		json_object_set_new(json, "energy", window_to_json(&window, share));
	}
	*ranks_listed += json_array_size(json_object_get(wait, "ranks"));
	if (*ranks_listed > NODE_RECORD_RANKS_MAX && json_array_size(json_object_get(wait, "ranks")) > 0)
		ranks_summarise(wait);
	return json;
}

static void samples_take(const json_t *step, struct watts *watts, struct power_curve *curve)
{
	struct power_points points;
	struct watts of_step;

	if (watts_from_json(json_object_get(step, "watts"), &of_step) == 0)
		watts_merge(watts, &of_step);
	if (curve && power_from_json(json_object_get(step, "power"), &points) == 0)
		power_curve_add(curve, &points);
}

json_t *node_record_steps(int job_directory, const struct energy_share *share, struct watts *ret_watts,
                          struct power_curve *curve, uint32_t *ret_left_out)
{
	int copy = openat(job_directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *entries = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	json_t *steps = json_array();
	size_t ranks_listed = 0;

	if (!entries && copy >= 0)
		close(copy);
	*ret_left_out = 0;
	memset(ret_watts, 0, sizeof(*ret_watts));
	while (entries && (entry = readdir(entries))) {
		json_auto_t *json = NULL;
		struct state_step step;
		json_t *wait = NULL;

		if (strncmp(entry->d_name, "step.", 5) != 0)
			continue;
		if (json_array_size(steps) < NODE_RECORD_STEPS_MAX &&
		    files_read_json(job_directory, entry->d_name, STATE_STEP_FILE_MAX, &json) == 0 &&
		    state_step_from_json(json, &step, &wait) == 0) {
			json_array_append_new(steps, step_record(&step, share, wait, json, &ranks_listed));
			samples_take(json, ret_watts, curve);
		} else {
			(*ret_left_out)++;
		}
	}
	return steps;
}

static json_t *id_or_null(uint32_t id)
{
	return id == STATE_NONE ? json_null() : json_integer((json_int_t)id);
}

json_t *node_record_build(const struct state_job *job, const char *node, double end_s,
                          const struct energy_window *energy, const struct energy_share *share, json_t *steps,
                          uint32_t steps_left_out)
{
	json_t *json =
	        json_pack("{s:i, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:s}", "v", 1, "kind", "node",
	                  "node", node, "cluster", job->cluster, "job_id", (json_int_t)job->job_id, "array_job_id",
	                  id_or_null(job->array_job_id), "array_task_id", id_or_null(job->array_task_id), "het_job_id",
	                  id_or_null(job->het_job_id), "het_offset", id_or_null(job->het_offset), "restart_count",
	                  (json_int_t)job->restart_count, "uid", (json_int_t)job->uid, "gid", (json_int_t)job->gid,
	                  "nodes", job->nodes);

	if (!json)
		return NULL;
	json_object_set_new(json, "policy", state_policy_to_json(&job->policy));
	json_object_set_new(json, "start_s", json_real(job->start_s));
	json_object_set_new(json, "end_s", json_real(end_s));
	json_object_set_new(json, "cores", json_integer((json_int_t)job->cores));
	json_object_set_new(json, "cores_total", json_integer((json_int_t)job->cores_total));
	json_object_set_new(json, "energy", energy ? window_to_json(energy, share) : json_null());
	json_object_set_new(json, "energy_why", json_string(energy ? "" : job->energy_why));
	json_object_set(json, "steps", steps);
	json_object_set_new(json, "steps_left_out", json_integer((json_int_t)steps_left_out));
	return json;
}

/* null where there are no counters. */
static json_t *throttle_now(const struct state_job *job)
{
	uint64_t events[THROTTLE_KIND_COUNT];
	struct throttle now;
	json_t *json;

	throttle_read(&now);
	if (!throttle_between(&job->throttle, &now, job->cpus, events))
		return json_null();
	json = json_object();
	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
		json_object_set_new(json, throttle_kind_name((enum throttle_kind)kind),
		                    json_integer((json_int_t)events[kind]));
	return json;
}

/* Of the steps' points and the job's ends; NULL where no step was sampled. */
static json_t *power_print(struct power_curve *curve, const struct power_points *ends)
{
	json_t *json;

	if (curve->count > 0)
		power_curve_add(curve, ends);
	json = power_curve_to_json(curve);
	power_curve_free(curve);
	return json;
}

/* Returns whether there is a window from the job's begin until now; if not, why is filled in. */
static bool window_take(const struct state_place *place, struct state_job *job, struct energy_window *ret_window,
                        struct power_points *ret_ends)
{
	cleanup_close int node = state_open_node(place);
	struct energy_snapshot now;
	struct error error = {0};
	struct rapl *rapl = NULL;
	bool taken;

	if (!job->has_baseline && !job->energy_why[0])
		strcpy(job->energy_why, "no sample at the job's begin");
	if (!job->has_baseline)
		return false;
	if (node < 0)
		error_set(&error, node, "the node's notes: %s", strerror(-node));
	taken = node >= 0 && rapl_open(&rapl, &error) == 0 && energy_update(node, rapl, NULL, &now, &error) == 0;
	rapl_close(rapl);
	if (!taken) {
		snprintf(job->energy_why, sizeof(job->energy_why), "%.*s", STATE_WHY_MAX - 1, error.text);
		return false;
	}
	energy_between(&job->baseline, &now, ret_window);
	power_add(ret_ends, &job->baseline);
	power_add(ret_ends, &now);
	return true;
}

static bool record_fits(const json_t *record)
{
	return json_dumpb(record, NULL, 0, JSON_COMPACT | JSON_REAL_PRECISION(15)) <= NODE_RECORD_MAX;
}

/*
 * What readers would refuse for its size goes: the functions first, then the steps. Only thousands of steps come near;
 * whoever starts those on purpose must not thereby be rid of the job's energy.
 */
static void record_shrink(json_t *record)
{
	static const char *const details[] = {"profile", "hooks", "flags", "spun"};
	json_t *steps = json_object_get(record, "steps"), *step;
	json_int_t left_out = json_integer_value(json_object_get(record, "steps_left_out"));
	size_t i;

	if (record_fits(record))
		return;
	json_array_foreach(steps, i, step)
	{
		json_t *wait = json_object_get(step, "wait");

		json_object_clear(json_object_get(wait, "calls"));
		for (size_t detail = 0; detail < sizeof(details) / sizeof(details[0]); detail++)
			json_object_del(wait, details[detail]);
	}
	if (record_fits(record))
		return;
	json_object_set_new(record, "steps_left_out", json_integer(left_out + (json_int_t)json_array_size(steps)));
	json_array_clear(steps);
}

/* When the epilog was here that could not write the record; 0: none was. */
static double ended_s(int directory)
{
	struct stat status;

	return fstatat(directory, ENDED, &status, AT_SYMLINK_NOFOLLOW) ? 0 : (double)status.st_mtim.tv_sec;
}

static int record_put(const struct node_record_end *end, int directory, char key[OUTBOX_KEY_MAX], struct error *error)
{
	cleanup_free struct state_job *job = calloc(1, sizeof(*job));
	struct energy_window window;
	struct energy_share share;
	struct watts watts;
	struct power_points ends = {0};
	struct power_curve curve = {0};
	json_auto_t *steps = NULL, *record = NULL, *power = NULL;
	double late_s = ended_s(directory);
	unsigned failures = memory_failures();
	uint32_t left_out = 0;
	bool has_window;
	int result = job ? state_job_read(&end->place, end->job_id, job) : -ENOMEM;

	if (result)
		return error_set(error, result, "state of job %u: %s", end->job_id, strerror(-result));
	result = outbox_key(job->cluster, job->job_id, job->restart_count, key, error);
	if (result)
		return result;
	if (late_s > 0) { /* what the counters show now others have used too */
		job->has_baseline = false;
		strcpy(job->energy_why, "the record could not be written at the job's end");
	}
	has_window = window_take(&end->place, job, &window, &ends);
	energy_share_read(job->cores, job->cores_total, job->cpus, &share);
	steps = node_record_steps(directory, &share, &watts, &curve, &left_out);
	power = power_print(&curve, &ends);
	if (!job->policy.asked[0] && json_array_size(steps) == 0 && left_out == 0)
		return RECORD_NOT_WANTED;
	record = node_record_build(job, end->place.node, late_s > 0 ? late_s : clock_wall_s(),
	                           has_window ? &window : NULL, &share, steps, left_out);
	if (record) {
		json_object_set_new(record, "throttle", throttle_now(job));
		json_object_set_new(record, "watts", watts_fit(&watts, &share));
		if (has_window && power)
			json_object_set(record, "power_mw", power);
		record_shrink(record);
	}
	if (!record || memory_failures() != failures)
		return error_set(error, -ENOMEM, "out of memory");
	return outbox_put(end->outbox, key, end->place.node, record, error);
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
		return outbox_writer_start(end->helper, key, end->argument_count, end->arguments, error);
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
