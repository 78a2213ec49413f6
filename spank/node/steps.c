#include "spank/node/steps.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/memory.h"
#include "spank/node/state.h"
#include "spank/record/node.h"
#include "spank/record/parts/policy.h"

#include <stdlib.h>
#include <string.h>

#define READ_WHOLE_MAX (16 * 1024 * 1024) /* bytes of step files from which details are taken, */
#define READ_MAX       (48 * 1024 * 1024) /* and from which anything is */
#define DETAILS_MAX    (NODE_RECORD_MAX / 2)
#define HEAD_ROOM      (256 * 1024) /* for what is in the record beside the steps */
#define TEXT_MAX       (NODE_RECORD_MAX - HEAD_ROOM)

static const char *const named[] = {"batch", "extern", "interactive"};

#define NAMED_COUNT (sizeof(named) / sizeof(named[0]))
#define PLACES      (NAMED_COUNT + STATE_STEPS_MAX)

/* The name of the step's file that is read at that place. */
static void file_name(size_t place, char name[32])
{
	if (place < NAMED_COUNT)
		snprintf(name, 32, "step.%s.json", named[place]);
	else
		snprintf(name, 32, "step.%zu.json", place - NAMED_COUNT);
}

/* Which files there are, so that they are opened in order, and no others are; one that is none of those is left out. */
static void directory_look(int job_directory, bool found[PLACES], struct node_steps *steps)
{
	cleanup_closedir DIR *entries = files_entries(job_directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		size_t place = 0;
		char name[32] = "";

		if (strncmp(entry->d_name, "step.", 5) != 0)
			continue;
		while (place < NAMED_COUNT && strncmp(entry->d_name + 5, named[place], strlen(named[place])) != 0)
			place++;
		if (place == NAMED_COUNT)
			place += strtoul(entry->d_name + 5, NULL, 10);
		if (place < PLACES)
			file_name(place, name);
		if (strcmp(entry->d_name, name) == 0)
			found[place] = true;
		else
			steps->left_out++;
	}
}

/* What the step's file has that no later sum needs to know of. */
static const char *const as_they_are[] = {"grant", "csv"};

static json_t *step_record(const struct state_step *step, const struct energy_share *share, json_t *wait,
                           const json_t *file)
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
		json_object_set_new(json, "policy", record_policy_write(&step->policy));
	if (step->has_energy) {
		struct energy_window window;

		energy_between(&step->from, &step->to, &window);
		json_object_set_new(json, "energy", record_energy_write(&window, share));
	}
	return json;
}

/* Adds a step if it is no longer than that. Returns its length, 0: it was not added. */
static size_t text_add(struct node_steps *steps, const json_t *step, size_t most)
{
	cleanup_free char *text = memory_text(step, 0);
	size_t length = text ? strlen(text) : 0;

	if (length == 0 || length > most || steps->count >= STATE_STEPS_MAX || steps->length + length + 1 > TEXT_MAX)
		return 0;
	steps->length += (size_t)sprintf(steps->text + steps->length, "%s%s", steps->count > 0 ? "," : "", text);
	steps->count++;
	return length;
}

/* With its details while there is room for them, else by its sums, else by the least that can be said of it. */
static void step_add(struct node_steps *steps, json_t *step, bool whole)
{
	json_t *wait = json_object_get(step, "wait");
	size_t length = 0;

	steps->ranks += json_array_size(json_object_get(wait, "ranks"));
	if (steps->ranks > NODE_RANKS_MAX)
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

static void samples_take(const json_t *step, struct node_steps *steps)
{
	struct power_points points;
	struct watts of_step;

	if (watts_from_json(json_object_get(step, "watts"), &of_step) == 0)
		watts_merge(&steps->watts, &of_step);
	if (power_from_json(json_object_get(step, "power"), &points) == 0)
		power_curve_add(&steps->curve, &points);
}

static json_t *file_parse(int job_directory, const char *name, struct node_steps *steps)
{
	cleanup_free char *text = NULL;
	size_t length = 0;

	if (steps->read >= READ_MAX || files_read(job_directory, name, STATE_STEP_FILE_MAX, &text, &length))
		return NULL;
	steps->read += length;
	return memory_json(text, length, JSON_REJECT_DUPLICATES);
}

static void file_take(int job_directory, const char *name, const struct energy_share *share, struct node_steps *steps)
{
	bool whole = steps->read < READ_WHOLE_MAX;
	json_auto_t *json = file_parse(job_directory, name, steps), *record = NULL;
	struct state_step step;
	json_t *wait = NULL;

	if (!json || state_step_from_json(json, &step, &wait)) {
		steps->left_out++;
		return;
	}
	record = step_record(&step, share, wait, json);
	step_add(steps, record, whole);
	samples_take(json, steps);
}

void node_steps_read(int job_directory, const struct energy_share *share, struct node_steps *ret_steps)
{
	cleanup_free bool *found = memory_array(PLACES, sizeof(*found));

	memset(ret_steps, 0, sizeof(*ret_steps));
	ret_steps->text = memory_array(TEXT_MAX + 1, 1); /* a page of it is taken when it is written */
	if (!found || !ret_steps->text)
		return;
	directory_look(job_directory, found, ret_steps);
	ret_steps->left_out += state_steps_counted(job_directory);
	for (size_t place = 0; place < PLACES; place++) {
		char name[32];

		file_name(place, name);
		if (found[place])
			file_take(job_directory, name, share, ret_steps);
	}
}

void node_steps_free(struct node_steps *steps)
{
	free(steps->text);
	power_curve_free(&steps->curve);
	memset(steps, 0, sizeof(*steps));
}
