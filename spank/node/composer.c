#include "spank/node/composer.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/log.h"
#include "spank/base/memory.h"
#include "spank/energy/power.h"
#include "spank/energy/saving.h"
#include "spank/energy/share.h"
#include "spank/machine/gpus.h"
#include "spank/node/ending.h"
#include "spank/node/sources.h"
#include "spank/record/parse.h"
#include "spank/record/parts/meters.h"
#include "spank/record/parts/policy.h"
#include "spank/record/parts/saving.h"
#include "spank/store/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RUNS_MAX 8 /* runs of one job whose records may wait for slurmdbd */

#define READ_WHOLE_MAX (16 * 1024 * 1024) /* bytes of step files that are read with details */
#define READ_MAX       (48 * 1024 * 1024) /* bytes of step files that are read in all */
#define DETAILS_MAX    (NODE_RECORD_MAX / 2)
#define HEAD_ROOM      (256 * 1024) /* bytes for everything but the steps */
#define TEXT_MAX       (NODE_RECORD_MAX - HEAD_ROOM)
#define RANKS_MAX      65536 /* most ranks that are listed, over all steps */
#define CLOCK_SET_S    1     /* a clock that is set moves by more than this */

static const char *const named_steps[] = {"batch", "extern", "interactive"};

#define NAMED_COUNT (sizeof(named_steps) / sizeof(named_steps[0]))
#define FILES       (NAMED_COUNT + STATE_STEPS_MAX)

/*
 * The "steps" of the record, made from the files in the job's directory in bounded time and memory. Files are read in
 * order of step id; steps over a bound are counted. Without memory, which memory_failures tells, steps are left out.
 */
struct steps {
	char *text; /* JSON objects with commas between them */
	size_t length;
	uint32_t count;           /* steps in text */
	uint32_t summed;          /* steps in text that lost details */
	uint32_t left_out;        /* steps that are not in text */
	struct power_curve curve; /* power of the job, from the steps' points */
	struct saving saving;
	/* used so far, of the bounds above */
	size_t read;    /* bytes of step files */
	size_t details; /* bytes of steps with details */
	size_t ranks;
};

#define cleanup_steps __attribute__((cleanup(steps_free)))

/* Writes the name of the file with that index in the order of reading: named steps first, then by id. */
static void file_name(size_t index, char name[32])
{
	if (index < NAMED_COUNT)
		snprintf(name, 32, "step.%s.json", named_steps[index]);
	else
		snprintf(name, 32, "step.%zu.json", index - NAMED_COUNT);
}

/*
 * Marks a step's file as found, so that files are read in order. A file with another name of that kind counts as left
 * out.
 */
static void file_note(const char *entry, bool found[FILES], struct steps *steps)
{
	size_t index = 0;
	char name[32] = "";

	if (strncmp(entry, "step.", 5) != 0)
		return;
	while (index < NAMED_COUNT && strncmp(entry + 5, named_steps[index], strlen(named_steps[index])) != 0)
		index++;
	if (index == NAMED_COUNT)
		index += strtoul(entry + 5, NULL, 10);
	if (index < FILES)
		file_name(index, name);
	if (strcmp(entry, name) == 0)
		found[index] = true;
	else
		steps->left_out++;
}

/* Finds the steps' files. Returns 0 or -errno: a directory that cannot be read must not count as one without steps. */
static int steps_find(int job_directory, bool found[FILES], struct steps *steps)
{
	cleanup_closedir DIR *entries = files_entries(job_directory);
	const struct dirent *entry;

	if (!entries)
		return -errno;
	while ((errno = 0, entry = readdir(entries)))
		file_note(entry->d_name, found, steps);
	return -errno;
}

/* Returns a step as the node's record has it, made of its file, or NULL without memory. */
static json_t *step_record(const struct state_step *step, const struct energy_share *share, const json_t *file)
{
	struct energy_window window;
	json_t *energy = NULL;
	char id[16];

	state_step_name(step->step_id, id);
	if (step->has_energy && share) {
		energy_between(&step->from, &step->to, &window);
		energy = record_energy_write(&window, share);
	}
	return json_pack("{s:s, s:f, s:f, s:O*, s:O*, s:O*, s:O*, s:o*, s:o*}", "id", id, "start_s", step->start_s,
	                 "end_s", step->end_s, "wait", json_object_get(file, "wait"), "grant",
	                 json_object_get(file, "grant"), "csv", json_object_get(file, "csv"), "missed",
	                 json_object_get(file, "missed"), "policy",
	                 step->policy.asked[0] ? record_policy_write(&step->policy) : NULL, "energy", energy);
}

/* Adds a step if its text has at most `most` bytes. Returns the length, 0 if it was not added. */
static size_t text_add(struct steps *steps, const json_t *step, size_t most)
{
	cleanup_free char *text = memory_text(step, 0);
	size_t length = text ? strlen(text) : 0;

	if (length == 0 || length > most || steps->count >= STATE_STEPS_MAX || steps->length + length + 1 > TEXT_MAX)
		return 0;
	steps->length += (size_t)sprintf(steps->text + steps->length, "%s%s", steps->count > 0 ? "," : "", text);
	steps->count++;
	return length;
}

/* Adds a step: with its details while there is room for them, else with its sums, else with the least. */
static void step_add(struct steps *steps, json_t *step, bool whole)
{
	json_t *wait = json_object_get(step, "wait");
	size_t length = 0;

	steps->ranks += json_array_size(json_object_get(wait, "ranks"));
	if (steps->ranks > RANKS_MAX)
		record_ranks_shorten(wait);
	if (whole)
		length = text_add(steps, step, DETAILS_MAX - steps->details);
	if (!length) {
		record_wait_shorten(wait);
		length = text_add(steps, step, DETAILS_MAX - steps->details);
	}
	steps->details += length;
	if (!length) {
		record_wait_least(wait);
		json_object_clear(json_object_get(json_object_get(step, "grant"), "refused"));
		length = text_add(steps, step, TEXT_MAX);
		steps->summed += length > 0;
	} else {
		steps->summed += json_object_get(wait, "omitted") != NULL;
	}
	steps->left_out += length == 0;
}

/* Adds a step's points of power and its looks to the job's. */
static void samples_take(const json_t *step, struct steps *steps)
{
	struct power_points points;
	struct saving saving;

	if (power_from_json(json_object_get(step, "power"), &points) == 0)
		power_curve_add(&steps->curve, &points);
	if (saving_from_json(json_object_get(step, "saving"), &saving) == 0)
		saving_merge(&steps->saving, &saving);
}

/* Reads and parses a step's file, and counts its bytes. Returns NULL if it is missing or bad, or without memory. */
static json_t *file_parse(int job_directory, const char *name, struct steps *steps)
{
	cleanup_free char *text = NULL;
	size_t length = 0;

	if (files_read(job_directory, name, STATE_STEP_FILE_MAX, &text, &length))
		return NULL;
	steps->read += length;
	return memory_json(text, length, JSON_REJECT_DUPLICATES);
}

/* Adds a step from its file. A step whose file is bad, or beyond the bounds, counts as left out. */
static void file_take(int job_directory, const char *name, const struct energy_share *share, struct steps *steps)
{
	bool whole = steps->read < READ_WHOLE_MAX;
	json_auto_t *json = steps->read < READ_MAX ? file_parse(job_directory, name, steps) : NULL, *record = NULL;
	struct state_step step;

	if (!json || state_step_from_json(json, &step)) {
		steps->left_out++;
		return;
	}
	record = step_record(&step, share, json);
	step_add(steps, record, whole);
	samples_take(json, steps);
}

/*
 * Reads all steps. share: NULL leaves out the steps' energy, because the job's is from another source. Returns 0 or
 * -errno.
 */
static int steps_read(int job_directory, const struct energy_share *share, struct steps *ret_steps)
{
	cleanup_free bool *found = memory_array(FILES, sizeof(*found));
	int result;

	memset(ret_steps, 0, sizeof(*ret_steps));
	ret_steps->text = memory_array(TEXT_MAX + 1, 1); /* the kernel takes a page only when it is written */
	if (!found || !ret_steps->text)
		return -ENOMEM;
	result = steps_find(job_directory, found, ret_steps);
	if (result)
		return result;
	ret_steps->left_out += state_steps_counted(job_directory);
	for (size_t index = 0; index < FILES; index++) {
		char name[32];

		file_name(index, name);
		if (found[index])
			file_take(job_directory, name, share, ret_steps);
	}
	return 0;
}

static void steps_free(struct steps *steps)
{
	free(steps->text);
	power_curve_free(&steps->curve);
	memset(steps, 0, sizeof(*steps));
}

static json_t *id_print(uint32_t id)
{
	return id == STATE_NONE ? json_null() : json_integer((json_int_t)id);
}

/* Returns the energy of the job's graphics processors, or NULL if it has none. */
static json_t *gpus_write(const struct state_job *job, const struct ending *ending)
{
	const struct gpus_window window = {.list = job->gpu_list,
	                                   .from = &job->meters,
	                                   .to = &ending->meters,
	                                   .present = gpus_count(),
	                                   .simulated = strcmp(rapl_source(), "simulated") == 0};

	return record_gpus_write(&window);
}

static json_t *energy_print(const struct state_job *job, const struct energy_window *window,
                            const struct energy_share *share, bool includes_gpus, const json_t *gpus)
{
	json_t *json = record_energy_write(window, share);

	if (json && !includes_gpus && (job->gpus || gpus_count() > 0) && !record_gpus_are_counted(gpus))
		record_energy_lacks_gpus(json);
	return json;
}

/*
 * Returns the record without its steps, or NULL without memory. energy: NULL if there is none, and job->energy_why says
 * why.
 */
static json_t *record_build(const struct state_job *job, const char *node, double end_s,
                            const struct energy_window *energy, bool includes_gpus, const struct energy_share *share,
                            const struct steps *steps, const json_t *gpus)
{
	return json_pack("{s:i, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:b, s:b, s:o, s:f, s:f, "
	                 "s:I, s:I, s:s, s:I, s:I, s:o, s:O*}",
	                 "v", 1, "kind", "node", "node", node, "cluster", job->cluster, "job_id",
	                 (json_int_t)job->job_id, "array_job_id", id_print(job->array_job_id), "array_task_id",
	                 id_print(job->array_task_id), "het_job_id", id_print(job->het_job_id), "het_offset",
	                 id_print(job->het_offset), "restart_count", (json_int_t)job->restart_count, "uid",
	                 (json_int_t)job->uid, "gid", (json_int_t)job->gid, "nodes", job->nodes, "restart_known",
	                 (int)job->restart_known, "timeless", (int)job->too_late, "policy",
	                 record_policy_write(&job->policy), "start_s", job->start_s, "end_s", end_s, "cores",
	                 (json_int_t)job->cores, "cores_total", (json_int_t)job->cores_total, "energy_why",
	                 energy ? "" : job->energy_why, "steps_left_out", (json_int_t)steps->left_out, "steps_summed",
	                 (json_int_t)steps->summed, "energy",
	                 energy ? energy_print(job, energy, share, includes_gpus, gpus) : json_null(), "gpus", gpus);
}

static json_t *throttle_write(const struct state_job *job, const struct ending *ending)
{
	struct record_throttle throttle = {.known = false};

	if (ending->has_throttle)
		throttle.known = throttle_between(&job->throttle, &ending->throttle, job->cpus, throttle.events);
	return record_throttle_write(&throttle);
}

static char *record_print(const json_t *record, const struct steps *steps)
{
	cleanup_free char *head = memory_text(record, 0);
	char *text = NULL;

	if (!head ||
	    asprintf(&text, "%.*s,\"steps\":[%s]}", (int)strlen(head) - 1, head, steps->text ? steps->text : "") < 0)
		return NULL;
	return text;
}

/*
 * Chooses the run's number under which the record lies in the outbox, and sets it in the record: Slurm's number, or the
 * next one if the outbox has another run's record there, or that of another job with the same id.
 */
static int key_choose(const struct composer_target *to, const struct state_job *job, json_t *record,
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
		if (outbox_is_free(to->outbox, key, to->run_directory->node, &run))
			return 0;
	}
	return error_set(error, -EEXIST, "%d runs of job %u wait in the outbox", RUNS_MAX, job->job_id);
}

/*
 * Returns why the saving must not be told, NULL if it may. Looks read powercap's packages: they say nothing about
 * joules of other counters.
 */
static const char *saving_refusal(const struct state_job *job, const struct sources *sources,
                                  const struct energy_share *share)
{
	if (share->node < 1 || job->shared_cores)
		return RECORD_SAVING_SHARED;
	return sources->has_window && !sources->is_powercap ? RECORD_SAVING_OTHERS : NULL;
}

/* Returns the record without its steps, or NULL without memory. */
static json_t *record_make(const char *node, const struct state_job *job, const struct ending *ending,
                           const struct sources *sources, const struct energy_share *share, struct steps *steps)
{
	struct power_points ends = {0};
	json_auto_t *power = NULL, *gpus = gpus_write(job, ending);
	json_t *record;

	if (sources->has_powercap) {
		power_add(&ends, &job->baseline);
		power_add(&ends, &ending->sample);
	}
	if (steps->curve.count > 0)
		power_curve_add(&steps->curve, &ends);
	power = record_power_write(&steps->curve);
	record = record_build(job, node, ending->end_s, sources->has_window ? &sources->window : NULL,
	                      sources->includes_gpus, share, steps, gpus);
	object_set_some(
	        record, "meters",
	        record_meters_write(&job->meters, &ending->meters,
	                            sources->has_powercap && !sources->is_powercap ? &sources->powercap : NULL));
	json_object_set_new(record, "throttle", throttle_write(job, ending));
	object_set_some(record, "saving", record_saving_write(&steps->saving, saving_refusal(job, sources, share)));
	if (sources->is_powercap && power)
		json_object_set(record, "power_mw", power);
	return record;
}

/*
 * Moves the job's begin by as much as the node's clock was set during the job: slurmctld's clock was not, and by it
 * slurmdbd tells which of the job's runs this is.
 */
static void begin_move(const struct ending *ending, struct state_job *job)
{
	if (ending->start_s > 0 && fabs(ending->start_s - job->start_s) > CLOCK_SET_S)
		job->start_s = ending->start_s;
}

int composer_put(const struct composer_target *to, int directory, struct state_job *job, const struct ending *ending,
                 struct error *error)
{
	struct sources sources;
	struct energy_share share;
	cleanup_steps struct steps steps = {.text = NULL};
	json_auto_t *record = NULL;
	cleanup_free char *text = NULL;
	char key[OUTBOX_KEY_MAX];
	unsigned failures = memory_failures();
	int result;

	begin_move(ending, job);
	energy_share_read(job->cores, job->cores_total, job->cpus, job->usable, &share);
	sources_choose(job, ending, &sources);
	result = steps_read(directory, sources.has_window && !sources.is_powercap ? NULL : &share, &steps);
	if (result)
		return error_set(error, result, "cannot read the steps: %s", strerror(-result));
	if (!job->policy.asked[0] && steps.count == 0 && steps.left_out == 0)
		return 0;
	record = record_make(to->run_directory->node, job, ending, &sources, &share, &steps);
	if (record) {
		result = key_choose(to, job, record, key, error);
		if (result)
			return result;
		text = record_print(record, &steps);
	}
	if (!text || memory_failures() != failures)
		return error_set(error, -ENOMEM, "out of memory");
	return outbox_put(to->outbox, key, to->run_directory, text, error);
}
