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

/* Which files there are, so that they are opened in order, and no others are. */
struct found {
	bool name[NAMED_COUNT];
	bool step[STATE_STEPS_MAX];
};

/* Notes the file's step; one that is none of those is left out. */
static void entry_note(const char *entry, struct found *found, struct node_steps *steps)
{
	char *end;
	unsigned long id = strtoul(entry, &end, 10);

	for (size_t i = 0; i < NAMED_COUNT; i++) {
		size_t length = strlen(named[i]);

		if (strncmp(entry, named[i], length) == 0 && strcmp(entry + length, ".json") == 0) {
			found->name[i] = true;
			return;
		}
	}
	if (end > entry && strcmp(end, ".json") == 0 && id < STATE_STEPS_MAX)
		found->step[id] = true;
	else
		steps->left_out++;
}

static void directory_look(int job_directory, struct found *found, struct node_steps *steps)
{
	cleanup_closedir DIR *entries = files_entries(job_directory);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		if (strncmp(entry->d_name, "step.", 5) == 0)
			entry_note(entry->d_name + 5, found, steps);
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

/* Makes room for so many bytes more and a NUL. */
static bool text_reserve(struct node_steps *steps, size_t more)
{
	size_t room = steps->room ? steps->room : 4096;
	char *bigger;

	if (steps->length + more < steps->room)
		return true;
	while (room <= steps->length + more)
		room *= 2;
	bigger = memory_array(room, 1);
	if (!bigger)
		return false;
	if (steps->length)
		memcpy(bigger, steps->text, steps->length);
	free(steps->text);
	steps->text = bigger;
	steps->room = room;
	return true;
}

/* Adds a step if it is no longer than that. Returns its length, 0: it was not added. */
static size_t text_add(struct node_steps *steps, const json_t *step, size_t most)
{
	cleanup_free char *text = memory_text(step, 0);
	size_t length = text ? strlen(text) : 0;

	if (length == 0 || length > most || steps->count >= STATE_STEPS_MAX || steps->length + length + 1 > TEXT_MAX ||
	    !text_reserve(steps, length + 1))
		return 0;
	if (steps->count > 0)
		steps->text[steps->length++] = ',';
	memcpy(steps->text + steps->length, text, length + 1);
	steps->length += length;
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

static void file_take(int job_directory, const char *id, const struct energy_share *share, struct node_steps *steps)
{
	json_auto_t *json = NULL, *record = NULL;
	struct state_step step;
	json_t *wait = NULL;
	char name[32];
	bool whole = steps->read < READ_WHOLE_MAX;

	snprintf(name, sizeof(name), "step.%s.json", id);
	json = file_parse(job_directory, name, steps);
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
	cleanup_free struct found *found = memory_array(1, sizeof(*found));

	memset(ret_steps, 0, sizeof(*ret_steps));
	if (!found)
		return;
	directory_look(job_directory, found, ret_steps);
	ret_steps->left_out += state_steps_counted(job_directory);
	for (size_t i = 0; i < NAMED_COUNT; i++)
		if (found->name[i])
			file_take(job_directory, named[i], share, ret_steps);
	for (uint32_t step = 0; step < STATE_STEPS_MAX; step++) {
		char id[16];

		state_step_name(step, id);
		if (found->step[step])
			file_take(job_directory, id, share, ret_steps);
	}
}

void node_steps_free(struct node_steps *steps)
{
	free(steps->text);
	power_curve_free(&steps->curve);
	memset(steps, 0, sizeof(*steps));
}
