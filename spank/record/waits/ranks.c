#include "spank/record/waits/ranks.h"

#include "preload/contract/stats.h"
#include "spank/base/cleanup.h"
#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/parts/number.h"
#include "spank/record/waits/runs.h"
#include "spank/record/waits/worlds.h"

#include <string.h>

#define QUANTILES 101
#define EXTREMES  16
#define RUNS_MAX  4096 /* more rows would not fit */

void record_rank_write(json_t *ranks, const struct record_rank *rank, uint64_t wait_us, uint64_t asleep_us)
{
	json_t *row = json_pack("[i, I, I]", rank->rank, (json_int_t)wait_us, (json_int_t)asleep_us);

	if (rank->world > 0 || rank->task >= 0) {
		json_array_append_new(row, json_integer(rank->world));
		json_array_append_new(row, json_integer(rank->task));
	}
	json_array_append_new(ranks, row);
}

/*
 * Returns [rank, wait_us] of the rank that waits least (sign 1) or most (sign -1), the first in the list of equal ones.
 */
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

void record_ranks_shorten(json_t *wait)
{
	json_t *ranks = json_object_get(wait, "ranks"), *rank;
	json_int_t wait_us = 0, asleep_us = 0;
	size_t i;

	if (json_array_size(ranks) == 0)
		return;
	json_array_foreach(ranks, i, rank)
	{
		wait_us += json_integer_value(json_array_get(rank, 1));
		asleep_us += json_integer_value(json_array_get(rank, 2));
	}
	wait_us = wait_us < RECORD_US_MAX ? wait_us : RECORD_US_MAX;
	asleep_us = asleep_us < RECORD_US_MAX ? asleep_us : RECORD_US_MAX;
	json_object_set_new(wait, "omitted",
	                    json_pack("{s:I, s:I, s:I, s:o, s:o}", "count", (json_int_t)json_array_size(ranks),
	                              "wait_us", wait_us, "asleep_us", asleep_us, "min", extreme(ranks, 1), "max",
	                              extreme(ranks, -1)));
	json_object_set_new(wait, "ranks", json_array());
}

/* Keeps the ranks that waited least and most. */
static void extremes_add(struct record_ranks *sum, const struct record_rank *least, const struct record_rank *most)
{
	bool first = record_ranks_count(sum) == 0;

	if (first || least->wait_s < sum->min.wait_s)
		sum->min = *least;
	if (first || most->wait_s > sum->max.wait_s)
		sum->max = *most;
}

static bool seconds_read(const json_t *value, double *ret_seconds)
{
	bool good = whole_of(value, RECORD_US_MAX, ret_seconds);

	*ret_seconds /= 1e6;
	return good;
}

/* Reads [rank, wait_us] of a rank that is not listed. */
static bool extreme_read(const json_t *value, struct record_rank *ret_rank)
{
	*ret_rank = (struct record_rank){.world = WORLD_NONE, .task = -1};
	return json_array_size(value) == 2 && rank_of(json_array_get(value, 0), &ret_rank->rank) &&
	       ret_rank->rank <= RECORD_RANK_MAX && seconds_read(json_array_get(value, 1), &ret_rank->wait_s);
}

/* Reads [rank, wait_us, asleep_us] or [rank, wait_us, asleep_us, world, task]. */
static bool rank_read(const json_t *value, struct record_rank *ret_rank)
{
	size_t numbers = json_array_size(value);
	uint64_t world = 0;

	*ret_rank = (struct record_rank){.task = -1};
	if ((numbers != 3 && numbers != 5) || !rank_of(json_array_get(value, 0), &ret_rank->rank) ||
	    ret_rank->rank > RECORD_RANK_MAX || !seconds_read(json_array_get(value, 1), &ret_rank->wait_s) ||
	    !seconds_read(json_array_get(value, 2), &ret_rank->asleep_s))
		return false;
	if (numbers == 5 && (!integer_of(json_array_get(value, 3), MPIWAIT_SLOTS_MAX, &world) ||
	                     !rank_of(json_array_get(value, 4), &ret_rank->task) || ret_rank->task > RECORD_RANK_MAX))
		return false;
	ret_rank->world = (uint32_t)world;
	return true;
}

/* Reads the sums of ranks that the node did not list; NULL: it listed all. */
static bool omitted_read(const json_t *omitted, struct record_ranks *ranks)
{
	struct record_rank least, most;
	double count;

	if (!omitted)
		return true;
	if (!whole_of(json_object_get(omitted, "count"), MPIWAIT_SLOTS_MAX, &count) || count == 0 ||
	    !seconds_read(json_object_get(omitted, "wait_us"), &ranks->wait_s) ||
	    !seconds_read(json_object_get(omitted, "asleep_us"), &ranks->asleep_s) ||
	    !extreme_read(json_object_get(omitted, "min"), &least) ||
	    !extreme_read(json_object_get(omitted, "max"), &most))
		return false;
	extremes_add(ranks, &least, &most);
	ranks->omitted = count;
	return true;
}

bool record_ranks_read(const json_t *wait, struct record_ranks *ret_ranks)
{
	const json_t *ranks = json_object_get(wait, "ranks"), *value;
	size_t i;

	if (!json_is_array(ranks) || json_array_size(ranks) > MPIWAIT_SLOTS_MAX)
		return false;
	ret_ranks->rank = memory_array(json_array_size(ranks) + 1, sizeof(*ret_ranks->rank));
	if (!ret_ranks->rank)
		return false;
	json_array_foreach(ranks, i, value)
	{
		struct record_rank *rank = &ret_ranks->rank[i];

		if (!rank_read(value, rank))
			return false;
		extremes_add(ret_ranks, rank, rank);
		ret_ranks->count++;
	}
	return omitted_read(json_object_get(wait, "omitted"), ret_ranks) && record_worlds_read(wait, ret_ranks);
}

/* Adds waits to the job's sums, and to the step's sum of waits. */
static void sums_add(struct record_ranks *sum, struct record_ranks *step_sum, double wait_s, double asleep_s)
{
	sum->wait_s += wait_s;
	sum->asleep_s += asleep_s;
	step_sum->wait_s += wait_s;
}

void record_ranks_add(struct record_ranks *sum, struct record_ranks *step_sum, const struct record_ranks *from,
                      uint32_t node, uint32_t step)
{
	struct record_rank least = from->min, most = from->max;
	uint32_t world = record_worlds_add(sum, from, node, step);

	if (record_ranks_count(from) == 0)
		return;
	least.node = most.node = node;
	least.world += least.world != WORLD_NONE ? world : 0;
	most.world += most.world != WORLD_NONE ? world : 0;
	extremes_add(sum, &least, &most);
	for (size_t i = 0; i < from->count; i++) {
		struct record_rank *rank = &sum->rank[sum->count++];

		*rank = from->rank[i];
		rank->node = node;
		rank->step = step;
		rank->world += world;
		sums_add(sum, step_sum, rank->wait_s, rank->asleep_s);
	}
	sum->omitted += from->omitted;
	sums_add(sum, step_sum, from->wait_s, from->asleep_s);
	step_sum->omitted += record_ranks_count(from);
}

static int rank_compare(const void *left, const void *right)
{
	const struct record_rank *a = left, *b = right;

	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

static int rank_compare_world(const void *left, const void *right)
{
	const struct record_rank *a = left, *b = right;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Returns true if the ranks are those of one complete world: 0, 1, ... up to its size, each once, by whatever steps. */
static bool is_one_world(const struct record_ranks *sum, double world)
{
	if (sum->count == 0 || sum->omitted > 0 || (double)sum->count != world)
		return false;
	for (size_t i = 0; i < sum->count; i++)
		if (sum->rank[i].rank != (int32_t)i)
			return false;
	return true;
}

void record_ranks_sort(struct record_ranks *sum, bool is_whole, double world)
{
	bool is_one;

	qsort(sum->rank, sum->count, sizeof(*sum->rank), rank_compare_world);
	is_one = is_whole && is_one_world(sum, world);
	if ((is_one && !record_worlds_known(sum)) || record_worlds_settle(sum))
		return;
	qsort(sum->rank, sum->count, sizeof(*sum->rank), is_one ? rank_compare_world : rank_compare);
}

json_t *record_rank_print(int32_t rank, double wait_s, const char *node)
{
	return json_pack("{s:i, s:o, s:s}", "rank", rank, "s", record_seconds(wait_s), "node", node);
}

/* Returns one rank; with its world, and without an ambiguous number, if there are several worlds. */
static json_t *rank_print(const struct record_ranks *ranks, const struct record_rank *rank,
                          const struct record_names *names)
{
	bool placed = ranks->several && rank->world != WORLD_NONE;
	const struct record_world *world = placed ? &ranks->world[rank->world] : NULL;
	bool numbered = !ranks->several || (world && world->kind != WORLD_UNKNOWN);
	json_t *json = record_rank_print(numbered ? rank->rank : -1, rank->wait_s, names->node[rank->node]);

	if (world)
		json_object_set_new(json, "world", json_integer((json_int_t)rank->world + 1));
	if (world && world->by_task && rank->task >= 0)
		json_object_set_new(json, "task", json_integer(rank->task));
	return json;
}

void record_ranks_print_ends(json_t *wait, const struct record_ranks *sum, const struct record_names *names)
{
	json_object_set_new(wait, "min", rank_print(sum, &sum->min, names));
	json_object_set_new(wait, "max", rank_print(sum, &sum->max, names));
}

static int wait_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Returns the quantiles of the listed ranks' waits. */
static json_t *quantiles_print(const struct record_ranks *sum)
{
	cleanup_free double *waits = memory_array(sum->count + 1, sizeof(*waits));
	json_t *json = json_array();

	for (size_t i = 0; waits && i < sum->count; i++)
		waits[i] = sum->rank[i].wait_s;
	if (!waits || sum->count == 0)
		return json;
	qsort(waits, sum->count, sizeof(*waits), wait_compare);
	for (size_t i = 0; i < QUANTILES; i++)
		json_array_append_new(json, record_seconds(waits[(i * (sum->count - 1) + 50) / (QUANTILES - 1)]));
	return json;
}

/*
 * Returns the EXTREMES ranks that wait most (sign 1) or least (sign -1), the farthest first; of equal ones, the first
 * in the list.
 */
static json_t *extremes_print(const struct record_ranks *sum, const struct record_names *names, int sign)
{
	const struct record_rank *extreme[EXTREMES];
	json_t *json = json_array();
	size_t count = 0;

	for (size_t i = 0; i < sum->count; i++) {
		const struct record_rank *rank = &sum->rank[i];
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
		json_t *rank = rank_print(sum, extreme[i], names);

		object_set_some(rank, "step", json_string(names->step ? names->step[extreme[i]->step] : NULL));
		json_array_append_new(json, rank);
	}
	return json;
}

/*
 * Returns the nodes of the listed ranks as runs: by block or cyclically, one row per node. NULL: one node, or too many
 * rows.
 */
static json_t *places_print(const struct record_ranks *sum, const struct record_names *names)
{
	cleanup_free struct run *runs = NULL;
	size_t count = 0;
	json_t *rows;

	for (size_t i = 0; i < sum->count; i++)
		if (sum->rank[i].node >= count)
			count = sum->rank[i].node + 1;
	runs = count > 1 ? memory_array(count, sizeof(*runs)) : NULL;
	if (!runs)
		return NULL;
	rows = json_array();
	for (size_t i = 0; i < sum->count && json_array_size(rows) <= RUNS_MAX; i++)
		run_add(rows, &runs[sum->rank[i].node], i, names->node[sum->rank[i].node]);
	for (size_t i = 0; i < count; i++)
		run_end(rows, &runs[i], names->node[i]);
	if (json_array_size(rows) > 1 && json_array_size(rows) <= RUNS_MAX)
		return rows;
	json_decref(rows);
	return NULL;
}

void record_ranks_print(json_t *wait, const struct record_ranks *sum, const struct record_names *names,
                        const struct record_detail *detail)
{
	json_t *waits = json_array(), *asleep = json_array();
	bool whole = sum->omitted == 0, listed = detail->ranks && whole;

	for (size_t i = 0; listed && i < sum->count; i++) {
		json_array_append_new(waits, record_seconds(sum->rank[i].wait_s));
		if (detail->asleep)
			json_array_append_new(asleep, record_seconds(sum->rank[i].asleep_s));
	}
	json_object_set_new(wait, "per_rank_s", waits);
	json_object_set_new(wait, "per_rank_asleep_s", asleep);
	object_set_some(wait, "worlds", record_worlds_print(sum, names));
	object_set_some(wait, "per_rank_nodes", listed && detail->nodes ? places_print(sum, names) : NULL);
	if (listed || !whole)
		return;
	json_object_set_new(wait, "quantiles_s", quantiles_print(sum));
	json_object_set_new(wait, "most", extremes_print(sum, names, 1));
	json_object_set_new(wait, "least", extremes_print(sum, names, -1));
}
