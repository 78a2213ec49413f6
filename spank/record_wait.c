#include "spank/record_wait.h"

#include "spank/cleanup.h"
#include "spank/memory.h"

#include <math.h>
#include <string.h>

#define QUANTILES 101
#define EXTREMES  16
#define RUNS_MAX  4096 /* more would not fit */

static json_t *ratio(double part, double whole)
{
	return number(whole > 0 ? fmin(part / whole, 1) : 0, 3);
}

static json_t *rank_print(const struct sum_rank *rank, const struct record_node *const nodes[])
{
	return json_pack("{s:i, s:o, s:s}", "rank", rank->rank, "s", record_seconds(rank->wait_s), "node",
	                 nodes[rank->node]->node);
}

static void call_print(json_t *calls, const char *name, const struct sum_call *call)
{
	json_object_set_new(calls, name,
	                    json_pack("{s:o, s:o, s:o, s:o}", "calls", number(call->calls, 0), "waits",
	                              number(call->waits, 0), "wait_s", record_seconds(call->wait_s), "longest_s",
	                              record_seconds(call->longest_s)));
}

static json_t *calls_print(const struct sum *sum, size_t shown)
{
	struct sum_call other = {0};
	json_t *calls = json_object();
	bool has_other = false;
	size_t printed = 0;

	for (size_t i = 0; i < sum->call_count; i++) {
		const struct sum_call *call = &sum->call[i];

		if (call->waits == 0 && call->wait_s == 0)
			continue; /* on no node */
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
	cleanup_free double *waits = memory_array(sum->rank_count + 1, sizeof(*waits));
	json_t *json = json_array();

	for (size_t i = 0; waits && i < sum->rank_count; i++)
		waits[i] = sum->rank[i].wait_s;
	if (!waits || sum->rank_count == 0)
		return json;
	qsort(waits, sum->rank_count, sizeof(*waits), wait_compare);
	for (size_t i = 0; i < QUANTILES; i++)
		json_array_append_new(json, record_seconds(waits[(i * (sum->rank_count - 1) + 50) / (QUANTILES - 1)]));
	return json;
}

/* The ranks that wait most (sign 1) or least (sign -1), the farthest first; of two alike, the first in the list. */
static json_t *extremes_print(const struct sum *sum, const struct record_node *const nodes[], int sign)
{
	const struct sum_rank *extreme[EXTREMES];
	json_t *json = json_array();
	size_t count = 0;

	for (size_t i = 0; i < sum->rank_count; i++) {
		const struct sum_rank *rank = &sum->rank[i];
		size_t at = count;

		while (at > 0 && (rank->wait_s - extreme[at - 1]->wait_s) * sign > 0)
			at--;
		if (at == EXTREMES)
			continue;
		count += count < EXTREMES;
		memmove(&extreme[at + 1], &extreme[at], (count - at - 1) * sizeof(extreme[0]));
		extreme[at] = rank;
	}
	for (size_t i = 0; i < count; i++) {
		json_t *rank = rank_print(extreme[i], nodes);

		if (sum->step_count > 1)
			json_object_set_new(rank, "step", json_string(sum->step[extreme[i]->step].id));
		json_array_append_new(json, rank);
	}
	return json;
}

/* A node's ranks at equal distances in the list. */
struct run {
	size_t first, last, count, distance;
};

/* Ends the run, if there is one, as a row of what needs no telling but by block: [node, first, count(, distance)]. */
static void run_end(json_t *rows, struct run *run, const char *node)
{
	json_t *row;

	if (run->count == 0)
		return;
	row = json_pack("[s, I, I]", node, (json_int_t)run->first, (json_int_t)run->count);
	if (run->count > 1 && run->distance > 1)
		json_array_append_new(row, json_integer((json_int_t)run->distance));
	json_array_append_new(rows, row);
	run->count = 0;
}

static void run_add(json_t *rows, struct run *run, size_t place, const char *node)
{
	if (run->count == 1)
		run->distance = place - run->last;
	else if (run->count > 1 && place - run->last != run->distance)
		run_end(rows, run, node);
	if (run->count == 0)
		run->first = place;
	run->last = place;
	run->count++;
}

/* Where each rank of the list ran: by block or cyclically it is a row for each node. NULL: all on one node, or too many
 * rows. */
static json_t *places_print(const struct sum *sum, const struct record_node *const nodes[])
{
	cleanup_free struct run *runs = NULL;
	size_t count = 0;
	json_t *rows;

	for (size_t i = 0; i < sum->rank_count; i++)
		if (sum->rank[i].node >= count)
			count = sum->rank[i].node + 1;
	runs = count > 1 ? calloc(count, sizeof(*runs)) : NULL;
	if (!runs)
		return NULL;
	rows = json_array();
	for (size_t i = 0; i < sum->rank_count && json_array_size(rows) <= RUNS_MAX; i++)
		run_add(rows, &runs[sum->rank[i].node], i, nodes[sum->rank[i].node]->node);
	for (size_t i = 0; i < count; i++)
		run_end(rows, &runs[i], nodes[i]->node);
	if (json_array_size(rows) > 1 && json_array_size(rows) <= RUNS_MAX)
		return rows;
	json_decref(rows);
	return NULL;
}

/* The per-rank lists, or what stands for them. */
static void ranks_print(json_t *json, const struct sum *sum, const struct record_node *const nodes[],
                        const struct record_detail *detail)
{
	json_t *wait = json_array(), *asleep = json_array(), *places;
	bool whole = sum->omitted == 0, listed = detail->ranks && whole;

	for (size_t i = 0; listed && i < sum->rank_count; i++) {
		json_array_append_new(wait, record_seconds(sum->rank[i].wait_s));
		if (detail->asleep)
			json_array_append_new(asleep, record_seconds(sum->rank[i].asleep_s));
	}
	json_object_set_new(json, "per_rank_s", wait);
	json_object_set_new(json, "per_rank_asleep_s", asleep);
	if (listed && detail->nodes && (places = places_print(sum, nodes)))
		json_object_set_new(json, "per_rank_nodes", places);
	if (listed || !whole)
		return;
	json_object_set_new(json, "quantiles_s", quantiles_print(sum));
	json_object_set_new(json, "most", extremes_print(sum, nodes, 1));
	json_object_set_new(json, "least", extremes_print(sum, nodes, -1));
}

json_t *record_wait_print(const struct sum *sum, const struct record_node *const nodes[],
                          const struct record_detail *detail)
{
	double ranks = (double)sum->rank_count + sum->omitted;
	json_t *json;

	if (ranks == 0)
		return json_null();
	json = json_pack("{s:o, s:o, s:o, s:o, s:o}", "ranks", number(ranks, 0), "total_s",
	                 record_seconds(sum->total_s), "mean_s", record_seconds(sum->total_s / ranks), "share",
	                 ratio(sum->total_s, sum->span_s), "asleep_s", record_seconds(sum->asleep_s));
	if (sum->sampled_s > 0)
		json_object_set_new(json, "cpu_share", ratio(sum->sampled_cpu_s, sum->sampled_s));
	json_object_set_new(json, "naps", number(sum->naps, 0));
	if (sum->transitions > 0) {
		json_object_set_new(json, "transitions", number(sum->transitions, 0));
		json_object_set_new(json, "low_s", record_seconds(sum->low_s));
	}
	json_object_set_new(json, "late", number(sum->late, 0));
	json_object_set_new(json, "late_s", record_seconds(sum->late_s));
	if (sum->unseen > 0)
		json_object_set_new(json, "unseen", number(sum->unseen, 0));
	if (sum->doubtful > 0)
		json_object_set_new(json, "doubtful", number(sum->doubtful, 0));
	service_print(&sum->service, json);
	json_object_set_new(json, "min", rank_print(&sum->min, nodes));
	json_object_set_new(json, "max", rank_print(&sum->max, nodes));
	json_object_set_new(json, "by_call", calls_print(sum, detail->calls));
	if (sum->profile->count > 0)
		json_object_set_new(json, "profile", profile_print(sum->profile, detail->calls, detail->sizes));
	if (sum->place_bytes[MPIWAIT_FAR] > 0 || sum->place_bytes[MPIWAIT_NEAR] > 0)
		json_object_set_new(json, "point_to_point",
		                    json_pack("{s:o, s:o}", "within_nodes_bytes",
		                              number(sum->place_bytes[MPIWAIT_NEAR], 0), "between_nodes_bytes",
		                              number(sum->place_bytes[MPIWAIT_FAR], 0)));
	ranks_print(json, sum, nodes, detail);
	return json;
}
