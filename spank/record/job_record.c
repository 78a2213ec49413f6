#include "spank/record/job_record.h"

#include "spank/base/cleanup.h"
#include "spank/base/memory.h"
#include "spank/record/parts/number.h"
#include "spank/record/parts/policy.h"
#include "spank/record/sum.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_SHOWN 24
#define NODES_LEAST 4 /* fewer are compared at a glance */
#define NODES_MOST  256

/* What is tried in turn. Many nodes of few ranks may have no room for their names where the ranks' sleep has. */
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

/* Everything that the printer needs. */
struct job {
	const struct record_node *const *nodes;
	size_t count;
	uint32_t nodes_of;
	const char *why;
	const struct policy_use *policy;
	const struct sum *sum;
	struct record_names names;
};

static const char *energy_why(const struct job *job)
{
	for (size_t i = 0; i < job->count; i++)
		if (!job->nodes[i]->energy.present && job->nodes[i]->energy_why[0])
			return job->nodes[i]->energy_why;
	return job->sum->energy.nodes < job->count ? "the job's cores are not known" : "";
}

static bool policy_same(const struct policy_use *a, const struct policy_use *b)
{
	return strcmp(a->asked, b->asked) == 0 && strcmp(a->used, b->used) == 0 && strcmp(a->why, b->why) == 0;
}

static json_t *step_print(const struct job *job, const struct sum_step *step)
{
	json_t *json = json_pack("{s:s, s:i, s:o, s:o, s:o}", "id", step->id, "nodes", (int)step->nodes, "ranks",
	                         number(step->waited.ranks, 0), "elapsed_s",
	                         record_seconds(fmax(step->end_s - step->start_s, 0)), "wait_s",
	                         record_seconds(step->waited.wait_s));

	if (step->policy.asked[0] && !policy_same(&step->policy, job->policy))
		json_object_set_new(json, "policy", record_policy_print(&step->policy));
	if (step->has_joules)
		json_object_set_new(json, "joules", number(step->joules, 1));
	return json;
}

static int wait_compare(const void *left, const void *right)
{
	const struct sum_step *a = *(const struct sum_step *const *)left, *b = *(const struct sum_step *const *)right;

	if (a->waited.wait_s != b->waited.wait_s)
		return a->waited.wait_s < b->waited.wait_s ? 1 : -1;
	return (a->place > b->place) - (a->place < b->place);
}

static int place_compare(const void *left, const void *right)
{
	const struct sum_step *a = *(const struct sum_step *const *)left, *b = *(const struct sum_step *const *)right;

	return (a->place > b->place) - (a->place < b->place);
}

/* The steps that waited most, in order of start, and the sum of the others. */
static void steps_print(json_t *json, const struct job *job, size_t shown)
{
	size_t count = job->sum->step_count;
	cleanup_free const struct sum_step **order = memory_array(count + 1, sizeof(*order));
	double ranks = 0, wait_s = 0;
	json_t *steps = json_array();

	json_object_set_new(json, "steps", steps);
	for (size_t i = 0; order && i < count; i++)
		order[i] = &job->sum->step[i];
	shown = !order ? 0 : shown < count ? shown : count;
	if (shown < count && order) {
		qsort(order, count, sizeof(*order), wait_compare);
		qsort(order, shown, sizeof(*order), place_compare);
	}
	for (size_t i = 0; i < shown; i++)
		json_array_append_new(steps, step_print(job, order[i]));
	for (size_t i = shown; order && i < count; i++) {
		ranks += order[i]->waited.ranks;
		wait_s += order[i]->waited.wait_s;
	}
	if (shown < count)
		json_object_set_new(json, "steps_rest",
		                    json_pack("{s:I, s:o, s:o}", "steps", (json_int_t)(count - shown), "ranks",
		                              number(ranks, 0), "wait_s", record_seconds(wait_s)));
}

static void set_if(json_t *json, const char *key, json_t *value)
{
	if (value)
		json_object_set_new(json, key, value);
}

static void steps_counts_print(json_t *json, const struct job *job, size_t shown)
{
	double left_out = job->sum->steps_left_out;

	if (job->sum->step_count > shown)
		left_out += (double)(job->sum->step_count - shown);
	if (left_out > 0)
		json_object_set_new(json, "steps_left_out", number(left_out, 0));
	if (job->sum->steps_summed > 0)
		json_object_set_new(json, "steps_summed", number(job->sum->steps_summed, 0));
}

/* Of each node what root has read there. NULL where the nodes are few or many, or nothing was read on any. */
static json_t *nodes_print(const struct job *job)
{
	json_t *list = json_array();
	bool known = false;

	for (size_t i = 0; i < job->count; i++) {
		const struct record_node *node = job->nodes[i];
		double share = record_node_share(node);
		bool has_joules = node->energy.present && share >= 0;

		known |= has_joules || node->throttle.known;
		json_array_append_new(
		        list, json_pack("[s, o, o]", node->node,
		                        has_joules ? number(record_energy_own_j(&node->energy, share), 1) : json_null(),
		                        node->throttle.known ? number(record_throttle_events(&node->throttle), 0)
		                                             : json_null()));
	}
	if (known)
		return list;
	json_decref(list);
	return NULL;
}

/* {"mpi_wait": ...}; NULL: no memory. */
static json_t *job_print(const struct job *job, const struct record_detail *detail)
{
	const struct sum *sum = job->sum;
	json_t *nodes = json_pack("{s:i, s:I}", "reported", (int)job->count, "of", (json_int_t)job->nodes_of);
	json_t *energy = record_energy_print(&sum->energy, job->count);
	json_t *json = json_pack("{s:i, s:o, s:o, s:o, s:o}", "v", 1, "policy", record_policy_print(job->policy),
	                         "nodes", nodes, "elapsed_s", record_seconds(record_elapsed_s(job->nodes, job->count)),
	                         "energy", energy);

	if (!json)
		return NULL;
	if (job->why)
		json_object_set_new(nodes, "why", json_string(job->why));
	if (sum->energy.nodes > 0)
		set_if(energy, "power_w", record_power_print(&sum->power));
	set_if(json, "watts", record_watts_print(&sum->watts));
	set_if(json, "throttle", record_throttle_print(&sum->throttle));
	if (sum->energy.nodes < job->count)
		json_object_set_new(json, "energy_why", json_string(energy_why(job)));
	if (detail->nodes && job->count >= NODES_LEAST && job->count <= NODES_MOST)
		set_if(json, "by_node", nodes_print(job));
	set_if(json, "grant", record_grant_print(&sum->grant));
	set_if(json, "csv", record_csv_print(&sum->csv));
	json_object_set_new(json, "wait", record_wait_print(&sum->wait, &job->names, detail));
	steps_print(json, job, detail->steps);
	steps_counts_print(json, job, detail->steps);
	return json_pack("{s:o}", "mpi_wait", json);
}

/* The job's policy: as the first node that had to fall back used it, else as the first node says; else a step's. */
static const struct policy_use *policy_of(const struct record_node *const nodes[], size_t count, const struct sum *sum)
{
	static const struct policy_use none = {.asked = "off", .used = "off"};

	for (size_t i = 0; i < count; i++)
		if (nodes[i]->policy.asked[0] && nodes[i]->policy.why[0])
			return &nodes[i]->policy;
	for (size_t i = 0; i < count; i++)
		if (nodes[i]->policy.asked[0])
			return &nodes[i]->policy;
	for (size_t i = 0; i < sum->step_count; i++)
		if (sum->step[i].policy.asked[0])
			return &sum->step[i].policy;
	return &none;
}

bool record_has_ranks(const struct record_node *const nodes[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < nodes[i]->step_count; j++)
			if (nodes[i]->step[j].wait.ranks.count > 0 || nodes[i]->step[j].wait.ranks.omitted > 0)
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

/* Names by index, for the parts that know of ranks only. */
static bool names_make(struct job *job)
{
	job->names.node = memory_array(job->count, sizeof(*job->names.node));
	job->names.step =
	        job->sum->step_count > 1 ? memory_array(job->sum->step_count, sizeof(*job->names.step)) : NULL;
	for (size_t i = 0; job->names.node && i < job->count; i++)
		job->names.node[i] = job->nodes[i]->node;
	for (size_t i = 0; job->names.step && i < job->sum->step_count; i++)
		job->names.step[i] = job->sum->step[i].id;
	return job->names.node && (job->names.step || job->sum->step_count <= 1);
}

/* With as much detail as fits. */
static void record_make(const struct job *job, struct record *record)
{
	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		/* a number and its comma are two bytes at least: not even tried */
		if (details[i].ranks && job->sum->wait.ranks.count > RECORD_MAX / 2)
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
	struct sum *sum = NULL;
	int result = sum_make(nodes, count, &sum, error);

	if (result)
		return result;
	job.sum = sum;
	job.policy = policy_of(nodes, count, sum);
	if (names_make(&job))
		record_make(&job, &record);
	if (sum->energy.nodes == count)
		record.joules = round(sum->energy.joules * 10) / 10; /* as it is printed */
	free(job.names.node);
	free(job.names.step);
	sum_free(sum);
	if (!record.line || strlen(record.line) > RECORD_MAX || memory_failures() != failures) {
		record_free(&record);
		return error_set(error, -ENOMEM, "the record could not be printed");
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
	return json_integer_value(json_object_get(json_object_get(json_object_get(object, "mpi_wait"), "nodes"), name));
}

/* The record of more nodes; of two of as many, the one that knows of more. */
static bool is_better(const json_t *ours, const json_t *held)
{
	json_int_t have = nodes_number(ours, "reported"), had = nodes_number(held, "reported");

	return have > had || (have == had && nodes_number(ours, "of") > nodes_number(held, "of"));
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
		json_object_update(have, record->json);
		text = memory_text(have, 0);
	}
	if (!text || memory_failures() != failures || strlen(text) > UINT16_MAX) {
		free(text);
		return memory_failures() == failures ? -EFBIG : -ENOMEM;
	}
	*ret_text = text;
	return 0;
}
