#include "spank/record/merge.h"

#include "spank/base/cleanup.h"
#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/parts/number.h"
#include "spank/record/parts/policy.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME        "mpi_wait" /* name of our member in the field's JSON object */
#define CALLS_SHOWN 24
#define NODES_LEAST 4 /* by_node is left out below this: so few nodes are compared at a glance */
#define NODES_MOST  256

/*
 * Levels of detail, tried in turn until the record fits. The third drops the nodes' names and keeps the ranks' sleep: a
 * job with many nodes of few ranks may have room for the sleep alone.
 */
static const struct record_detail details[] = {
        {.ranks = true, .asleep = true, .nodes = true, .sizes = true, .steps = SIZE_MAX, .calls = CALLS_SHOWN},
        {.ranks = true, .nodes = true, .sizes = true, .steps = SIZE_MAX, .calls = CALLS_SHOWN},
        {.ranks = true, .asleep = true, .sizes = true, .steps = SIZE_MAX, .calls = CALLS_SHOWN},
        {.ranks = true, .sizes = true, .steps = SIZE_MAX, .calls = CALLS_SHOWN},
        {.sizes = true, .steps = SIZE_MAX, .calls = CALLS_SHOWN},
        {.steps = 256, .calls = CALLS_SHOWN},
        {.steps = 64, .calls = CALLS_SHOWN},
        {.steps = 16, .calls = CALLS_SHOWN},
        {.calls = 8},
};

/* A job while its nodes' records are merged. Names are borrowed from the nodes. */
struct job {
	const struct record_node *const *nodes;
	size_t count;
	uint32_t nodes_of;
	const char *why;
	struct record_node sum; /* sum of the nodes; steps end up in order of start */
	struct record_ranks ranks;
	struct sum_power power;
	struct record_names names;
};

/* Returns the merged step with the id of `from`; makes it if there is none. */
static struct record_step *step_find(struct job *job, json_t *index, const struct record_step *from)
{
	json_t *known = json_object_get(index, from->id);
	struct record_step *step = &job->sum.step[known ? (size_t)json_integer_value(known) : job->sum.step_count];

	if (known)
		return step;
	json_object_set_new(index, from->id, json_integer((json_int_t)job->sum.step_count));
	memcpy(step->id, from->id, sizeof(step->id));
	step->start_s = from->start_s;
	step->policy = from->policy;
	step->index = (uint32_t)job->sum.step_count++;
	return step;
}

/* Adds a node's step to the job's step of the same id. */
static void step_add(struct job *job, json_t *index, const struct record_step *from, uint32_t node_index)
{
	struct record_step *step = step_find(job, index, from);

	step->nodes++;
	step->start_s = fmin(step->start_s, from->start_s);
	step->end_s = fmax(step->end_s, from->end_s);
	if (from->policy.why[0] && !step->policy.why[0])
		step->policy = from->policy;
	step->has_joules |= from->has_joules;
	step->joules += from->joules;
	record_ranks_add(&job->ranks, &step->ranks, &from->ranks, node_index, step->index);
}

/* Adds all parts of a node's record to the job's. */
static void node_add(struct job *job, json_t *index, const struct record_node *node, uint32_t node_index)
{
	struct record_node *sum = &job->sum;

	record_energy_add(&sum->energy, &node->energy);
	record_gpus_add(&sum->gpus, &node->gpus);
	record_meters_add(&sum->meters, &node->meters);
	if (node->energy.nodes > 0)
		record_power_add(&job->power, &node->power, node->start_s, node->end_s, node->energy.node_joules,
		                 node->energy.joules);
	record_saving_add(&sum->saving, &node->saving);
	record_throttle_add(&sum->throttle, &node->throttle);
	record_grant_add(&sum->grant, &node->grant);
	record_csv_add(&sum->csv, &node->csv);
	record_missed_add(&sum->missed, &node->missed);
	record_wait_add(&sum->wait, &node->wait, node_index);
	integer_add(&sum->steps_left_out, node->steps_left_out, JSON_COUNT_MAX);
	integer_add(&sum->steps_summed, node->steps_summed, JSON_COUNT_MAX);
	/* the first node that had to fall back decides, else the first that names a policy */
	if (node->policy.asked[0] && (!sum->policy.asked[0] || (node->policy.why[0] && !sum->policy.why[0])))
		sum->policy = node->policy;
	job->names.node[node_index] = node->node;
	for (size_t i = 0; i < node->step_count; i++)
		step_add(job, index, &node->step[i], node_index);
}

static int step_compare(const void *left, const void *right)
{
	const struct record_step *a = left, *b = right;

	return a->start_s != b->start_s ? (a->start_s > b->start_s) - (a->start_s < b->start_s) : strcmp(a->id, b->id);
}

/* Orders steps by their wait, longest first; equal ones by their start. */
static int wait_compare(const void *left, const void *right)
{
	const struct record_step *a = *(const struct record_step *const *)left;
	const struct record_step *b = *(const struct record_step *const *)right;

	if (a->ranks.wait_s != b->ranks.wait_s)
		return a->ranks.wait_s < b->ranks.wait_s ? 1 : -1;
	return (a > b) - (a < b);
}

/*
 * Sorts the steps by start, corrects the step indexes of ranks and worlds, and gives each step's index its new meaning:
 * how many steps waited longer. Returns false without memory.
 */
static bool steps_sort(struct job *job)
{
	size_t count = job->sum.step_count;
	cleanup_free uint32_t *sorted = memory_array(count + 1, sizeof(*sorted));
	cleanup_free struct record_step **order = memory_array(count + 1, sizeof(*order));

	job->names.step = count > 1 ? memory_array(count, sizeof(*job->names.step)) : NULL;
	if (!sorted || !order || (count > 1 && !job->names.step))
		return false;
	qsort(job->sum.step, count, sizeof(*job->sum.step), step_compare);
	for (size_t i = 0; i < count; i++) {
		order[i] = &job->sum.step[i];
		sorted[order[i]->index] = (uint32_t)i;
		if (job->names.step)
			job->names.step[i] = order[i]->id;
	}
	for (size_t i = 0; i < job->ranks.count; i++)
		job->ranks.rank[i].step = sorted[job->ranks.rank[i].step];
	for (size_t i = 0; i < job->ranks.world_count; i++)
		job->ranks.world[i].step = sorted[job->ranks.world[i].step];
	qsort(order, count, sizeof(*order), wait_compare);
	for (size_t i = 0; i < count; i++)
		order[i]->index = (uint32_t)i;
	return true;
}

/*
 * Allocates the lists of steps, ranks, worlds and names, and finds the job's begin and end. Returns false without
 * memory.
 */
static bool job_begin(struct job *job)
{
	size_t steps = 0, ranks = 0, worlds = 0;
	uint32_t parts = 0;

	job->sum.start_s = job->nodes[0]->start_s;
	for (size_t i = 0; i < job->count; i++) {
		const struct record_node *node = job->nodes[i];

		job->sum.start_s = fmin(job->sum.start_s, node->start_s);
		job->sum.end_s = fmax(job->sum.end_s, node->end_s);
		parts = node->power.count > parts ? node->power.count : parts;
		steps += node->step_count;
		for (size_t j = 0; j < node->step_count; j++) {
			ranks += node->step[j].ranks.count;
			worlds += node->step[j].ranks.world_count;
		}
	}
	record_power_begin(&job->power, job->sum.start_s, job->sum.end_s, parts);
	job->sum.step = memory_array(steps + 1, sizeof(*job->sum.step));
	job->ranks.rank = memory_array(ranks + 1, sizeof(*job->ranks.rank));
	job->ranks.world = memory_array(worlds + 1, sizeof(*job->ranks.world));
	job->names.node = memory_array(job->count, sizeof(*job->names.node));
	return job->sum.step && job->ranks.rank && job->ranks.world && job->names.node;
}

static bool policy_same(const struct policy_use *a, const struct policy_use *b)
{
	return strcmp(a->asked, b->asked) == 0 && strcmp(a->used, b->used) == 0 && strcmp(a->why, b->why) == 0;
}

/*
 * Replaces the site's default by the policy that the site has for the job's program, if all steps with such a policy
 * have the same one, and no other step has ranks.
 */
static void policy_take_programs(struct job *job)
{
	const struct policy_use *found = NULL;

	if (strcmp(job->sum.policy.by, "site") != 0)
		return;
	for (size_t i = 0; i < job->sum.step_count; i++) {
		const struct record_step *step = &job->sum.step[i];
		bool by_program = strcmp(step->policy.by, "program") == 0;

		if (!by_program && record_ranks_count(&step->ranks) == 0)
			continue;
		if (!by_program || (found && !policy_same(found, &step->policy)))
			return;
		found = &step->policy;
	}
	if (found)
		job->sum.policy = *found;
}

/* Adds up all nodes. Returns false without memory. */
static bool job_make(struct job *job)
{
	json_auto_t *index = json_object();
	bool made = index && job_begin(job);

	for (size_t i = 0; made && i < job->count; i++)
		node_add(job, index, job->nodes[i], (uint32_t)i);
	if (!made || !steps_sort(job))
		return false;
	record_ranks_sort(&job->ranks, job->sum.wait.sum[WAIT_unseen] == 0, job->sum.wait.size);
	job->names.ranks_apart = job->ranks.apart;
	for (size_t i = 0; !job->sum.policy.asked[0] && i < job->sum.step_count; i++)
		job->sum.policy = job->sum.step[i].policy;
	policy_take_programs(job);
	if (!job->sum.policy.asked[0])
		job->sum.policy = (struct policy_use){.asked = "off", .used = "off"};
	return true;
}

static void job_free(struct job *job)
{
	free(job->sum.step);
	free(job->ranks.rank);
	free(job->ranks.world);
	free(job->names.node);
	free(job->names.step);
	record_wait_free(&job->sum.wait);
	record_energy_free(&job->sum.energy);
	record_gpus_free(&job->sum.gpus);
}

/* Returns why the job's energy is unknown; "": no node says why. */
static const char *energy_why(const struct job *job)
{
	for (size_t i = 0; i < job->count; i++)
		if (!job->nodes[i]->energy.present && job->nodes[i]->energy_why[0])
			return job->nodes[i]->energy_why;
	return job->sum.energy.nodes < job->count ? "the job's cores are unknown" : "";
}

static json_t *step_print(const struct job *job, const struct record_step *step)
{
	json_t *json = json_pack("{s:s, s:i, s:o, s:o, s:o}", "id", step->id, "nodes", (int)step->nodes, "ranks",
	                         number(record_ranks_count(&step->ranks), 0), "elapsed_s",
	                         record_seconds(fmax(step->end_s - step->start_s, 0)), "wait_s",
	                         record_seconds(step->ranks.wait_s));

	if (step->policy.asked[0] && !policy_same(&step->policy, &job->sum.policy))
		json_object_set_new(json, "policy", record_policy_print(&step->policy));
	if (step->has_joules)
		json_object_set_new(json, "joules", number(step->joules, 1));
	return json;
}

/* Prints the `shown` steps that waited longest, in order of start, and the sum of the others. */
static void steps_print(json_t *json, const struct job *job, size_t shown)
{
	double ranks = 0, wait_s = 0;
	json_t *steps = json_array();

	json_object_set_new(json, "steps", steps);
	for (size_t i = 0; i < job->sum.step_count; i++) {
		const struct record_step *step = &job->sum.step[i];

		if (step->index < shown) {
			json_array_append_new(steps, step_print(job, step));
			continue;
		}
		ranks += record_ranks_count(&step->ranks);
		wait_s += step->ranks.wait_s;
	}
	if (job->sum.step_count > shown)
		json_object_set_new(json, "steps_rest",
		                    json_pack("{s:I, s:o, s:o}", "steps", (json_int_t)(job->sum.step_count - shown),
		                              "ranks", number(ranks, 0), "wait_s", record_seconds(wait_s)));
}

/* Returns a row per node with what root read there, or NULL if root read nothing on any node. */
static json_t *nodes_print(const struct job *job)
{
	json_t *list = json_array();
	bool known = false;

	for (size_t i = 0; i < job->count; i++) {
		const struct record_node *node = job->nodes[i];
		bool has_joules = node->energy.nodes > 0;

		known |= has_joules || node->throttle.known;
		json_array_append_new(
		        list,
		        json_pack("[s, o, o]", node->node, has_joules ? number(node->energy.joules, 1) : json_null(),
		                  node->throttle.known ? number(node->throttle.most_events, 0) : json_null()));
	}
	if (known)
		return list;
	json_decref(list);
	return NULL;
}

/*
 * Returns the job's saving. It is refused if the nodes' joules come from different counters: the saving is powercap's
 * alone, and no part of such a sum.
 */
static struct record_saving saving_of(const struct job *job)
{
	if (job->sum.saving.nodes > 0 && strcmp(job->sum.energy.source, "mixed") == 0)
		return (struct record_saving){.why = RECORD_SAVING_OTHERS};
	return job->sum.saving;
}

/* Adds to the job's energy what is known beside the joules: power over time, and the saving. */
static void energy_complete(json_t *energy, const struct job *job)
{
	struct record_saving_cost cost = {.known = false};
	struct record_saving saving = saving_of(job);

	cost.known = record_cost_part(&job->sum.wait.cost, &cost.longer, &cost.error);
	object_set_some(energy, "power_w", record_power_print(&job->power));
	record_saving_print(energy, &saving, job->count, &cost);
}

/* Returns {"mpi_wait": ...}, or NULL without memory. */
static json_t *job_print(const struct job *job, const struct record_detail *detail)
{
	uint64_t left_out = job->sum.steps_left_out;
	json_t *nodes = json_pack("{s:i, s:I}", "reported", (int)job->count, "of", (json_int_t)job->nodes_of);
	json_t *energy = record_gpus_print(&job->sum.gpus, record_energy_print(&job->sum.energy, job->count));
	json_t *json = json_pack("{s:i, s:o, s:o, s:o, s:o}", "v", 1, "policy", record_policy_print(&job->sum.policy),
	                         "nodes", nodes, "elapsed_s",
	                         record_seconds(fmax(job->sum.end_s - job->sum.start_s, 0)), "energy", energy);

	if (!json)
		return NULL;
	object_set_some(nodes, "why", json_string(job->why));
	if (json_is_object(energy))
		object_set_some(energy, "meters", record_meters_print(&job->sum.meters));
	if (job->sum.energy.nodes > 0)
		energy_complete(energy, job);
	object_set_some(json, "throttle", record_throttle_print(&job->sum.throttle));
	if (job->sum.energy.nodes < job->count)
		json_object_set_new(json, "energy_why", json_string(energy_why(job)));
	if (detail->nodes && job->count >= NODES_LEAST && job->count <= NODES_MOST)
		object_set_some(json, "by_node", nodes_print(job));
	object_set_some(json, "grant", record_grant_print(&job->sum.grant));
	object_set_some(json, "csv", record_csv_print(&job->sum.csv));
	json_object_set_new(json, "wait", record_wait_print(&job->sum.wait, &job->ranks, &job->names, detail));
	object_set_some(json, "missed", record_missed_print(&job->sum.missed));
	steps_print(json, job, detail->steps);
	if (job->sum.step_count > detail->steps)
		left_out += job->sum.step_count - detail->steps;
	object_set_some(json, "steps_left_out", json_integer((json_int_t)left_out));
	object_set_some(json, "steps_summed", json_integer((json_int_t)job->sum.steps_summed));
	return json_pack("{s:o}", NAME, json);
}

bool record_has_ranks(const struct record_node *const nodes[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < nodes[i]->step_count; j++)
			if (record_ranks_count(&nodes[i]->step[j].ranks) > 0)
				return true;
	return false;
}

double record_elapsed_s(const struct record_node *const nodes[], size_t count)
{
	double start = nodes[0]->start_s, end = nodes[0]->end_s;

	for (size_t i = 1; i < count; i++) {
		start = fmin(start, nodes[i]->start_s);
		end = fmax(end, nodes[i]->end_s);
	}
	return fmax(end - start, 0);
}

/* Makes the record with as much detail as fits. */
static void record_make(const struct job *job, struct record *record)
{
	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		/* a number and its comma take two bytes or more, so that this level cannot fit */
		if (details[i].ranks && job->ranks.count > RECORD_MAX / 2)
			continue;
		record_free(record);
		record->json = job_print(job, &details[i]);
		record->line = record->json ? memory_text(record->json, JSON_ENSURE_ASCII) : NULL;
		if (!record->line || strlen(record->line) <= RECORD_MAX)
			return;
	}
}

int record_merge(const struct record_node *const nodes[], size_t count, uint32_t nodes_of, const char *why,
                 struct record *ret_record, struct error *error)
{
	struct job job = {.nodes = nodes, .count = count, .nodes_of = nodes_of, .why = why};
	unsigned failures = memory_failures();
	struct record record = {.joules = -1};

	if (job_make(&job))
		record_make(&job, &record);
	else
		error_set(error, -ENOMEM, "out of memory");
	if (job.sum.energy.nodes == count)
		record.joules = round(job.sum.energy.joules * 10) / 10; /* rounded as the record prints it */
	job_free(&job);
	if (!record.line || strlen(record.line) > RECORD_MAX || memory_failures() != failures) {
		record_free(&record);
		return error_set(error, -ENOMEM, "out of memory while the record was printed");
	}
	*ret_record = record;
	return 0;
}

void record_free(struct record *record)
{
	json_decref(record->json);
	free(record->line);
	*record = (struct record){.joules = -1};
}

static json_int_t nodes_number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(json_object_get(object, NAME), "nodes"), name));
}

/* Returns true if `ours` covers more nodes than `held`, or as many of a larger job. */
static bool is_better(const json_t *ours, const json_t *held)
{
	json_int_t have = nodes_number(ours, "reported"), had = nodes_number(held, "reported");

	return have > had || (have == had && nodes_number(ours, "of") > nodes_number(held, "of"));
}

/* Returns the end of the JSON string that begins at `text`, which is valid JSON. */
static const char *string_end(const char *text)
{
	for (text++; *text != '"'; text++)
		text += *text == '\\';
	return text + 1;
}

/* Returns the end of the JSON value that begins at `text`. */
static const char *value_end(const char *text)
{
	int depth = 0;

	if (!strchr("\"{[", *text))
		return text + strcspn(text, ",]} \t\r\n");
	do {
		depth += *text == '{' || *text == '[';
		depth -= *text == '}' || *text == ']';
		text = *text == '"' ? string_end(text) : text + 1;
	} while (depth > 0);
	return text;
}

static const char *space_end(const char *text)
{
	return text + strspn(text, " \t\r\n");
}

/*
 * Finds the last member of a JSON object with that name, from its key to the end of its value. Returns false if there
 * is none.
 */
static bool member_find(const char *object, const char *name, const char **ret_begin, const char **ret_end)
{
	const char *key = space_end(space_end(object) + 1);
	bool found = false;

	while (*key == '"') {
		const char *end = string_end(key), *value = space_end(space_end(end) + 1), *next = value_end(value);

		if ((size_t)(end - key) == strlen(name) + 2 && strncmp(key + 1, name, strlen(name)) == 0) {
			*ret_begin = key;
			*ret_end = next;
			found = true;
		}
		next = space_end(next);
		key = *next == ',' ? space_end(next + 1) : next;
	}
	return found;
}

/*
 * Returns a copy of the object's text with our member set, or NULL without memory. Every other byte stays as another
 * tool wrote it: text that is printed anew may need characters that the column's character set lacks.
 */
static char *member_splice(const char *object, const json_t *ours)
{
	cleanup_free char *member = memory_text(ours, JSON_ENSURE_ASCII);
	const char *begin, *end, *before = "";
	size_t length = member ? strlen(member) : 0;
	char *text = memory_array(strlen(object) + length + 2, 1);

	if (!member || !text || length < 2) {
		free(text);
		return NULL;
	}
	if (!member_find(object, NAME, &begin, &end)) {
		begin = end = strrchr(object, '}');
		before = *space_end(space_end(object) + 1) == '}' ? "" : ",";
	}
	sprintf(text, "%.*s%s%.*s%s", (int)(begin - object), object, before, (int)length - 2, member + 1, end);
	return text;
}

int record_combine(const char *held, const struct record *record, char **ret_text)
{
	unsigned failures = memory_failures();
	json_auto_t *have = NULL;
	char *text;

	if (!held || held[strspn(held, " \t\r\n")] == '\0') {
		text = memory_copy(record->line);
	} else {
		have = memory_json(held, strlen(held), 0);
		if (memory_failures() != failures)
			return -ENOMEM;
		if (!json_is_object(have))
			return -EEXIST;
		if (!is_better(record->json, have))
			return -EALREADY;
		text = member_splice(held, record->json);
	}
	if (!text || memory_failures() != failures || strlen(text) > UINT16_MAX) {
		free(text);
		return memory_failures() == failures ? -EFBIG : -ENOMEM;
	}
	*ret_text = text;
	return 0;
}
