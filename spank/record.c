#include "spank/record.h"

#include "spank/cleanup.h"
#include "spank/record_energy.h"
#include "spank/record_number.h"
#include "spank/record_sum.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define CALLS_SHOWN 24
#define QUANTILES   101
#define SECONDS_MAX 1e12

/* How much is printed; each row leaves out more than the one before. */
static const struct detail {
	bool ranks;
	bool sizes;
	size_t steps;
	size_t calls;
} details[] = {
        {true, true, SIZE_MAX, CALLS_SHOWN}, {false, true, SIZE_MAX, CALLS_SHOWN}, {false, false, 256, CALLS_SHOWN},
        {false, false, 64, CALLS_SHOWN},     {false, false, 16, CALLS_SHOWN},      {false, false, 0, 8},
};

/* Everything that the printer needs. */
struct job {
	const struct record_node *const *nodes;
	size_t count;
	uint32_t nodes_of;
	const char *why;
	const struct policy_use *policy;
	const struct sum *sum;
};

static json_t *seconds(double value)
{
	return number(value < SECONDS_MAX ? value : SECONDS_MAX, 3);
}

static json_t *ratio(double part, double whole)
{
	return number(whole > 0 ? fmin(part / whole, 1) : 0, 3);
}

static json_t *policy_print(const struct policy_use *use)
{
	json_t *json = json_pack("{s:s, s:s}", "asked", use->asked, "used", use->used);

	if (use->why[0])
		json_object_set_new(json, "why", json_string(use->why));
	if (use->by[0])
		json_object_set_new(json, "by", json_string(use->by));
	return json;
}

static const char *energy_why(const struct job *job)
{
	for (size_t i = 0; i < job->count; i++)
		if (!job->nodes[i]->energy.present && job->nodes[i]->energy_why[0])
			return job->nodes[i]->energy_why;
	return job->sum->energy_nodes < job->count ? "the job's cores are not known" : "";
}

static json_t *rank_print(const struct job *job, const struct sum_rank *rank)
{
	return json_pack("{s:i, s:o, s:s}", "rank", rank->rank, "s", seconds(rank->wait_s), "node",
	                 job->nodes[rank->node]->node);
}

static void call_print(json_t *calls, const char *name, const struct sum_call *call)
{
	json_object_set_new(calls, name,
	                    json_pack("{s:o, s:o, s:o, s:o}", "calls", number(call->calls, 0), "waits",
	                              number(call->waits, 0), "wait_s", seconds(call->wait_s), "longest_s",
	                              seconds(call->longest_s)));
}

static json_t *calls_print(const struct sum *sum, size_t shown)
{
	struct sum_call other = {0};
	json_t *calls = json_object();
	bool has_other = false;
	size_t printed = 0;

	for (size_t i = 0; i < sum->call_count; i++) {
		const struct sum_call *call = &sum->call[i];

		if (printed < shown && strcmp(call->name, "other") != 0) {
			call_print(calls, call->name, call);
			printed++;
			continue;
		}
		has_other = true;
		other.calls += call->calls;
		other.waits += call->waits;
		other.wait_s += call->wait_s;
		other.longest_s = fmax(other.longest_s, call->longest_s);
	}
	if (has_other)
		call_print(calls, "other", &other);
	return calls;
}

static int wait_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static json_t *quantiles_print(const struct sum *sum)
{
	cleanup_free double *waits = calloc(sum->rank_count + 1, sizeof(*waits));
	json_t *json = json_array();

	for (size_t i = 0; waits && i < sum->rank_count; i++)
		waits[i] = sum->rank[i].wait_s;
	if (!waits || sum->rank_count == 0)
		return json;
	qsort(waits, sum->rank_count, sizeof(*waits), wait_compare);
	for (size_t i = 0; i < QUANTILES; i++)
		json_array_append_new(json, seconds(waits[(i * (sum->rank_count - 1) + 50) / (QUANTILES - 1)]));
	return json;
}

/* The per-rank lists, or what stands for them. */
static void ranks_print(json_t *json, const struct sum *sum, bool listed)
{
	json_t *wait = json_array(), *asleep = json_array();

	listed = listed && sum->omitted == 0;
	for (size_t i = 0; listed && i < sum->rank_count; i++) {
		json_array_append_new(wait, seconds(sum->rank[i].wait_s));
		json_array_append_new(asleep, seconds(sum->rank[i].asleep_s));
	}
	json_object_set_new(json, "per_rank_s", wait);
	json_object_set_new(json, "per_rank_asleep_s", asleep);
	if (!listed && sum->omitted == 0)
		json_object_set_new(json, "quantiles_s", quantiles_print(sum));
}

static json_t *wait_print(const struct job *job, const struct detail *detail)
{
	const struct sum *sum = job->sum;
	double ranks = (double)sum->rank_count + sum->omitted;
	json_t *json;

	if (ranks == 0)
		return json_null();
	json = json_pack("{s:o, s:o, s:o, s:o, s:o}", "ranks", number(ranks, 0), "total_s", seconds(sum->total_s),
	                 "mean_s", seconds(sum->total_s / ranks), "share", ratio(sum->total_s, sum->span_s), "asleep_s",
	                 seconds(sum->asleep_s));
	if (sum->sampled_s > 0)
		json_object_set_new(json, "cpu_share", ratio(sum->sampled_cpu_s, sum->sampled_s));
	json_object_set_new(json, "naps", number(sum->naps, 0));
	if (sum->transitions > 0) {
		json_object_set_new(json, "transitions", number(sum->transitions, 0));
		json_object_set_new(json, "low_s", seconds(sum->low_s));
	}
	json_object_set_new(json, "late", number(sum->late, 0));
	json_object_set_new(json, "late_s", seconds(sum->late_s));
	if (sum->unseen > 0)
		json_object_set_new(json, "unseen", number(sum->unseen, 0));
	service_print(&sum->service, json);
	json_object_set_new(json, "min", rank_print(job, &sum->min));
	json_object_set_new(json, "max", rank_print(job, &sum->max));
	json_object_set_new(json, "by_call", calls_print(sum, detail->calls));
	if (sum->profile->count > 0)
		json_object_set_new(json, "profile", profile_print(sum->profile, detail->calls, detail->sizes));
	ranks_print(json, sum, detail->ranks);
	return json;
}

static bool policy_same(const struct policy_use *a, const struct policy_use *b)
{
	return strcmp(a->asked, b->asked) == 0 && strcmp(a->used, b->used) == 0 && strcmp(a->why, b->why) == 0;
}

static json_t *steps_print(const struct job *job, size_t shown)
{
	json_t *steps = json_array();

	for (size_t i = 0; i < job->sum->step_count && i < shown; i++) {
		const struct sum_step *step = &job->sum->step[i];
		json_t *json =
		        json_pack("{s:s, s:i, s:o, s:o, s:o}", "id", step->id, "nodes", (int)step->nodes, "ranks",
		                  number(step->ranks, 0), "elapsed_s", seconds(fmax(step->end_s - step->start_s, 0)),
		                  "wait_s", seconds(step->wait_s));

		if (step->policy.asked[0] && !policy_same(&step->policy, job->policy))
			json_object_set_new(json, "policy", policy_print(&step->policy));
		if (step->has_joules)
			json_object_set_new(json, "joules", number(step->joules, 1));
		json_array_append_new(steps, json);
	}
	return steps;
}

static char *job_print(const struct job *job, const struct detail *detail)
{
	json_auto_t *line = NULL;
	json_t *nodes = json_pack("{s:i, s:I}", "reported", (int)job->count, "of", (json_int_t)job->nodes_of);
	json_t *json = json_pack("{s:i, s:o, s:o, s:o, s:o}", "v", 1, "policy", policy_print(job->policy), "nodes",
	                         nodes, "elapsed_s", seconds(record_elapsed_s(job->nodes, job->count)), "energy",
	                         record_energy_print(job->sum, job->nodes, job->count));
	double left_out = job->sum->steps_left_out;

	if (!json)
		return NULL;
	if (job->why)
		json_object_set_new(nodes, "why", json_string(job->why));
	if (job->sum->watts.packages > 0)
		json_object_set_new(json, "watts", record_watts_print(&job->sum->watts));
	if (job->sum->throttle_nodes > 0)
		json_object_set_new(json, "throttle", record_throttle_print(job->sum, job->nodes));
	if (job->sum->energy_nodes < job->count)
		json_object_set_new(json, "energy_why", json_string(energy_why(job)));
	if (job->sum->grant.mode[0])
		json_object_set_new(json, "grant", record_grant_print(&job->sum->grant));
	json_object_set_new(json, "wait", wait_print(job, detail));
	json_object_set_new(json, "steps", steps_print(job, detail->steps));
	if (job->sum->step_count > detail->steps)
		left_out += (double)(job->sum->step_count - detail->steps);
	if (left_out > 0)
		json_object_set_new(json, "steps_left_out", number(left_out, 0));
	line = json_pack("{s:o}", "mpi_wait", json);
	return line ? json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15)) : NULL;
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
			if (nodes[i]->step[j].wait.rank_count > 0 || nodes[i]->step[j].wait.omitted > 0)
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

int record_merge(const struct record_node *const nodes[], size_t count, uint32_t nodes_of, const char *why,
                 char **ret_line, struct error *error)
{
	struct job job = {.nodes = nodes, .count = count, .nodes_of = nodes_of, .why = why};
	struct sum *sum = NULL;
	char *line = NULL;
	int result = sum_make(nodes, count, &sum, error);

	if (result)
		return result;
	job.sum = sum;
	job.policy = policy_of(nodes, count, sum);
	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		free(line);
		line = job_print(&job, &details[i]);
		if (!line || strlen(line) <= RECORD_MAX)
			break;
	}
	sum_free(sum);
	if (!line || strlen(line) > RECORD_MAX) {
		free(line);
		return error_set(error, -ENOMEM, "the record could not be printed");
	}
	*ret_line = line;
	return 0;
}

static json_int_t reported(const json_t *object)
{
	return json_integer_value(
	        json_object_get(json_object_get(json_object_get(object, "mpi_wait"), "nodes"), "reported"));
}

int record_combine(const char *held, const char *line, char **ret_text)
{
	json_auto_t *have = NULL, *ours = json_loads(line, 0, NULL);
	char *text;

	if (!held || held[strspn(held, " \t\r\n")] == '\0') {
		text = strdup(line);
	} else {
		have = json_loads(held, 0, NULL);
		if (!json_is_object(have))
			return -EEXIST;
		if (reported(have) >= reported(ours))
			return -EALREADY;
		json_object_update(have, ours);
		text = json_dumps(have, JSON_COMPACT | JSON_REAL_PRECISION(15));
	}
	if (!text)
		return -ENOMEM;
	if (strlen(text) > UINT16_MAX) {
		free(text);
		return -EFBIG;
	}
	*ret_text = text;
	return 0;
}
