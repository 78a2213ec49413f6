#include "spank/record/parse.h"

#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/parts/policy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES     JSON_LETTERS JSON_DIGITS "._-"
#define CORES_MAX 1000000
#define JOB_MAX   (256 * 1024 * 1024)
#define NODE_MIN  (64 * 1024)

/*
 * Longest gap between two nodes of one run that never had the job at the same time. Slurm does not reuse a job's number
 * so soon after its end.
 */
#define RUN_APART_S 3
/*
 * How much later than the others a node may end that learnt of the job only at its end. The sweep waits as long for
 * nodes.
 */
#define RUN_LATE_S 900

#define ENERGY_REFUSED "the node wrote an energy that makes no sense"

/* Reads an id. With null_ok, null stands for RECORD_NODE_NONE. */
static bool id_get(const json_t *object, const char *key, bool null_ok, uint32_t *ret_id)
{
	const json_t *value = json_object_get(object, key);
	uint64_t id;

	if (null_ok && json_is_null(value)) {
		*ret_id = RECORD_NODE_NONE;
		return true;
	}
	if (!integer_of(value, UINT32_MAX - 1, &id))
		return false;
	*ret_id = (uint32_t)id;
	return true;
}

static bool times_get(const json_t *object, double *ret_start_s, double *ret_end_s)
{
	double start = json_number_value(json_object_get(object, "start_s"));
	double end = json_number_value(json_object_get(object, "end_s"));

	if (!(start >= 0 && start < RECORD_NODE_TIME_MAX && end >= 0 && end < RECORD_NODE_TIME_MAX))
		return false;
	*ret_start_s = start;
	*ret_end_s = end < start ? start : end; /* the clock was set back during the job */
	return true;
}

static bool step_id_ok(const char *id)
{
	return strcmp(id, "batch") == 0 || strcmp(id, "extern") == 0 || strcmp(id, "interactive") == 0 ||
	       (id[0] && characters_ok(id, JSON_DIGITS));
}

static bool step_energy_get(const json_t *json, const struct record_node *node, struct record_step *step)
{
	struct record_energy energy = {.present = false};
	bool good = record_energy_read(json_object_get(json, "energy"), record_node_share(node), node->node, &energy);

	step->has_joules = energy.nodes > 0;
	step->joules = step->has_joules ? energy.joules : 0;
	record_energy_free(&energy);
	return good;
}

/* Reads one step. Returns NULL, or the name of the field that is wrong. */
static const char *step_get(const json_t *json, struct record_node *node, struct record_step *step)
{
	if (!text_get(json, "id", step->id, sizeof(step->id), NAMES) || !step_id_ok(step->id) ||
	    !times_get(json, &step->start_s, &step->end_s))
		return "id or times";
	if (json_object_get(json, "policy") && !record_policy_read(json, &step->policy))
		return "policy";
	if (!step_energy_get(json, node, step))
		return "energy";
	if (!record_grant_read(json_object_get(json, "grant"), &node->grant))
		return "grant";
	if (!record_csv_read(json_object_get(json, "csv"), &node->csv))
		return "csv";
	if (!record_missed_read(json_object_get(json, "missed"), &node->missed))
		return "missed";
	return record_wait_read(json_object_get(json, "wait"), &node->wait, &step->ranks) ? NULL : "wait";
}

/* Notes the name of a part that counts as absent. */
static void part_leave(struct record_node *node, const char *name)
{
	size_t length = strlen(node->left_out);

	snprintf(node->left_out + length, sizeof(node->left_out) - length, "%s%s", length > 0 ? ", " : "", name);
}

/*
 * Reads a step into a copy of the sums, and takes over the copy only if the whole step is good. Returns NULL, or the
 * name of the field that is wrong.
 */
static const char *step_take(const json_t *json, struct record_node *node)
{
	struct record_node read = *node;
	struct record_step *step = &node->step[node->step_count];
	const char *wrong;

	read.wait = (struct record_wait){.size = 0};
	wrong = step_get(json, &read, step);
	if (!wrong) {
		record_wait_add(&node->wait, &read.wait, 0);
		node->grant = read.grant;
		node->csv = read.csv;
		node->missed = read.missed;
		node->step_count++;
	} else {
		free(step->ranks.rank);
		free(step->ranks.world);
		*step = (struct record_step){.nodes = 0};
	}
	record_wait_free(&read.wait);
	return wrong;
}

/* Reads all steps. Counts malformed steps as left out, and names the first of them. */
static void steps_get(const json_t *json, struct record_node *node)
{
	const json_t *steps = json_object_get(json, "steps");
	size_t count = json_array_size(steps), most = count < RECORD_NODE_STEPS_MAX ? count : RECORD_NODE_STEPS_MAX;
	char what[64] = "";

	if (!json_is_array(steps))
		part_leave(node, "\"steps\"");
	node->step = memory_array(most + 1, sizeof(*node->step));
	if (!node->step)
		return;
	for (size_t i = 0; i < most; i++) {
		const char *wrong = step_take(json_array_get(steps, i), node);

		if (wrong && !what[0])
			snprintf(what, sizeof(what), "\"steps\"[%zu]: %s", i, wrong);
	}
	if (count > most && !what[0])
		snprintf(what, sizeof(what), "\"steps\" beyond %d", RECORD_NODE_STEPS_MAX);
	if (what[0])
		part_leave(node, what);
	integer_add(&node->steps_left_out, count - node->step_count, JSON_COUNT_MAX);
}

/* Reads which node, cluster and job the record belongs to. Returns NULL, or what is wrong. */
static const char *identity_get(const json_t *json, struct record_node *node)
{
	const char *kind = json_string_value(json_object_get(json, "kind"));

	if (!kind || strcmp(kind, "node") != 0 || json_integer_value(json_object_get(json, "v")) != 1)
		return "not a node record of version 1";
	if (!text_get(json, "node", node->node, sizeof(node->node), NAMES) || !node->node[0] || node->node[0] == '.' ||
	    !text_get(json, "cluster", node->cluster, sizeof(node->cluster), NAMES) || !node->cluster[0])
		return "\"node\" or \"cluster\" is not a name";
	if (!id_get(json, "job_id", false, &node->job_id) || !id_get(json, "array_job_id", true, &node->array_job_id) ||
	    !id_get(json, "array_task_id", true, &node->array_task_id) ||
	    !id_get(json, "het_job_id", true, &node->het_job_id) ||
	    !id_get(json, "het_offset", true, &node->het_offset) ||
	    !id_get(json, "restart_count", false, &node->restart_count) || !id_get(json, "gid", false, &node->gid))
		return "an id is not a number";
	node->nodes = json_string_value(json_object_get(json, "nodes"));
	return node->nodes && characters_ok(node->nodes, NAMES "[],") ? NULL : "\"nodes\" is not a node list";
}

/* Reads when the job was on the node. Returns NULL, or what is wrong. */
static const char *times_of(const json_t *json, struct record_node *node)
{
	if (!times_get(json, &node->start_s, &node->end_s))
		return "\"start_s\" or \"end_s\"";
	run_read(json, &node->run);
	node->run.start_s = node->start_s;
	node->run.end_s = node->end_s;
	return NULL;
}

static bool cores_get(const json_t *json, struct record_node *node)
{
	uint64_t cores, cores_total;

	if (!integer_get(json, "cores", CORES_MAX, &cores) ||
	    !integer_get(json, "cores_total", CORES_MAX, &cores_total))
		return false;
	node->cores = (uint32_t)cores;
	node->cores_total = (uint32_t)cores_total;
	return true;
}

static bool policy_get(const json_t *json, struct record_node *node)
{
	struct policy_use policy = {.asked = ""};
	bool good = record_policy_read(json, &policy);

	if (good)
		node->policy = policy;
	return good;
}

static bool left_out_get(const json_t *json, struct record_node *node)
{
	return integer_get(json, "steps_left_out", JSON_COUNT_MAX, &node->steps_left_out);
}

static bool summed_get(const json_t *json, struct record_node *node)
{
	return integer_maybe(json, "steps_summed", JSON_COUNT_MAX, &node->steps_summed);
}

/* Reads the energy; if it is malformed, sets energy_why instead. Must run after cores_get. */
static bool energy_get(const json_t *json, struct record_node *node)
{
	struct record_energy energy = {.present = false};
	bool good = record_energy_read(json_object_get(json, "energy"), record_node_share(node), node->node, &energy) &&
	            record_reason_read(json, "energy_why", node->energy_why, sizeof(node->energy_why));

	if (good) {
		node->energy = energy;
		return true;
	}
	record_energy_free(&energy);
	strcpy(node->energy_why, ENERGY_REFUSED);
	return false;
}

static bool gpus_get(const json_t *json, struct record_node *node)
{
	struct record_gpus gpus = {.given = 0};
	bool good = record_gpus_read(json_object_get(json, "gpus"), node->node, &gpus);

	if (good)
		node->gpus = gpus;
	else
		record_gpus_free(&gpus);
	return good;
}

static bool meters_get(const json_t *json, struct record_node *node)
{
	struct record_meters meters = {.nodes = {{0}}};
	bool good = record_meters_read(json_object_get(json, "meters"), &meters);

	if (good)
		node->meters = meters;
	return good;
}

static bool power_get(const json_t *json, struct record_node *node)
{
	bool good = record_power_read(json_object_get(json, "power_mw"), &node->power);

	if (!good)
		node->power.count = 0;
	return good;
}

static bool saving_get(const json_t *json, struct record_node *node)
{
	struct record_saving saving = {.nodes = 0};
	bool good = record_saving_read(json_object_get(json, "saving"), &saving);

	if (good)
		node->saving = saving;
	return good;
}

static bool throttle_get(const json_t *json, struct record_node *node)
{
	struct record_throttle throttle = {.known = false};
	bool good = record_throttle_read(json_object_get(json, "throttle"), node->node, &throttle);

	if (good)
		node->throttle = throttle;
	return good;
}

/*
 * The optional parts, in the order in which they are read. A malformed one counts as absent: it must not cost the job
 * its record.
 */
static const struct {
	const char *name;
	bool (*get)(const json_t *json, struct record_node *node);
} parts[] = {
        {"\"policy\"", policy_get},
        {"\"cores\" or \"cores_total\"", cores_get},
        {"\"steps_left_out\"", left_out_get},
        {"\"steps_summed\"", summed_get},
        {"\"energy\" or \"energy_why\"", energy_get},
        {"\"gpus\"", gpus_get},
        {"\"meters\"", meters_get},
        {"\"power_mw\"", power_get},
        {"\"saving\"", saving_get},
        {"\"throttle\"", throttle_get},
};

/* Reads all optional parts. A malformed one is named in left_out. */
static void parts_get(const json_t *json, struct record_node *node)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!parts[i].get(json, node))
			part_leave(node, parts[i].name);
	steps_get(json, node);
}

int record_node_parse(const json_t *json, struct record_node **ret_node, struct error *error)
{
	unsigned failures = memory_failures();
	struct record_node *node = memory_array(1, sizeof(*node));
	const char *wrong = node ? identity_get(json, node) : NULL;
	int result = 0;

	if (node && !wrong)
		wrong = times_of(json, node);
	if (node && !wrong)
		parts_get(json, node);
	if (wrong)
		result = error_set(error, -EINVAL, "%s", wrong);
	if (memory_failures() != failures) /* without memory a good record looks malformed */
		result = error_set(error, -ENOMEM, "out of memory");
	if (result) {
		record_node_free(node);
		return result;
	}
	*ret_node = node;
	return 0;
}

void record_node_free(struct record_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->step_count; i++) {
		free(node->step[i].ranks.rank);
		free(node->step[i].ranks.world);
	}
	free(node->step);
	record_wait_free(&node->wait);
	record_energy_free(&node->energy);
	record_gpus_free(&node->gpus);
	free(node);
}

double record_node_share(const struct record_node *node)
{
	if (node->cores == 0 || node->cores_total == 0)
		return -1;
	return node->cores >= node->cores_total ? 1 : (double)node->cores / node->cores_total;
}

size_t node_short_most(uint32_t nodes)
{
	size_t most = JOB_MAX / (nodes > 0 ? nodes : 1);

	if (most < NODE_MIN)
		return NODE_MIN;
	return most < NODE_RECORD_MAX ? most : NODE_RECORD_MAX;
}

/*
 * Shortens a record: round 0 takes details from its steps, round 1 more of them, each later round the last half of the
 * steps. Updates the counts of shortened and dropped steps.
 */
static void record_shorten(json_t *record, size_t round)
{
	json_t *steps = json_object_get(record, "steps"), *step;
	json_int_t left_out = json_integer_value(json_object_get(record, "steps_left_out")), summed = 0;
	size_t count = json_array_size(steps), kept = round < 2 ? count : count / 2, i;

	for (; count > kept; count--, left_out++)
		json_array_remove(steps, count - 1);
	json_array_foreach(steps, i, step)
	{
		json_t *wait = json_object_get(step, "wait");

		if (round == 0)
			record_wait_shorten(wait);
		else
			record_wait_least(wait);
		summed += json_object_get(wait, "omitted") != NULL;
	}
	if (round >= 2)
		json_object_set_new(record, "steps_left_out", json_integer(left_out));
	json_object_set_new(record, "steps_summed", json_integer(summed));
}

char *node_short_print(json_t *record, size_t most)
{
	char *text = memory_text(record, 0);

	for (size_t i = 0; text && strlen(text) > most; i++) {
		if (i >= 2 && json_array_size(json_object_get(record, "steps")) == 0)
			break;
		free(text);
		record_shorten(record, i);
		text = memory_text(record, 0);
	}
	return text;
}

bool run_read(const json_t *json, struct job_run *ret_run)
{
	const json_t *start = json_object_get(json, "start_s"), *end = json_object_get(json, "end_s");
	const json_t *count = json_object_get(json, "restart_count"), *uid = json_object_get(json, "uid");

	if (!json_is_number(start) || !json_is_number(end) || !json_is_integer(count))
		return false;
	ret_run->start_s = json_number_value(start);
	ret_run->end_s = fmax(json_number_value(end), ret_run->start_s);
	ret_run->timeless = json_is_true(json_object_get(json, "timeless"));
	ret_run->known = json_is_true(json_object_get(json, "restart_known"));
	ret_run->count = (uint32_t)json_integer_value(count);
	ret_run->uid = json_is_integer(uid) ? json_integer_value(uid) : -1;
	return true;
}

json_t *run_to_json(const struct job_run *run)
{
	return json_pack("{s:f, s:f, s:b, s:I, s:I}", "start_s", run->start_s, "end_s", run->end_s, "restart_known",
	                 (int)run->known, "restart_count", (json_int_t)run->count, "uid", (json_int_t)run->uid);
}

bool run_is_same(const struct job_run *a, const struct job_run *b)
{
	double gap_s = fmax(a->start_s - b->end_s, b->start_s - a->end_s), most_s = 0;

	if (a->uid >= 0 && b->uid >= 0 && a->uid != b->uid)
		return false;
	if (a->timeless || b->timeless)
		most_s = RUN_LATE_S;
	else if (a->known && b->known && a->count == b->count)
		most_s = RUN_APART_S;
	return gap_s <= most_s;
}
