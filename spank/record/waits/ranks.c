#include "spank/record/waits/ranks.h"

#include "preload/stats.h"
#include "spank/base/cleanup.h"
#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/parts/number.h"

#include <string.h>

#define QUANTILES 101
#define EXTREMES  16
#define RUNS_MAX  4096 /* more would not fit */

void record_rank_write(json_t *ranks, const struct record_rank *rank)
{
	json_array_append_new(
	        ranks, json_pack("[i, I, I]", rank->rank, (json_int_t)rank->wait_us, (json_int_t)rank->asleep_us));
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

/* [rank, wait_us] or [rank, wait_us, asleep_us] */
static bool rank_read(const json_t *value, size_t numbers, struct record_rank *ret_rank)
{
	json_int_t rank = json_integer_value(json_array_get(value, 0));

	if (json_array_size(value) != numbers || !json_is_integer(json_array_get(value, 0)) || rank < -1 ||
	    rank > RECORD_RANK_MAX || !integer_of(json_array_get(value, 1), RECORD_US_MAX, &ret_rank->wait_us) ||
	    (numbers > 2 && !integer_of(json_array_get(value, 2), RECORD_US_MAX, &ret_rank->asleep_us)))
		return false;
	ret_rank->rank = (int32_t)rank;
	return true;
}

static bool omitted_read(const json_t *omitted, struct record_ranks *ret_ranks)
{
	if (!omitted)
		return true;
	return integer_get(omitted, "count", MPIWAIT_SLOTS_MAX, &ret_ranks->omitted) && ret_ranks->omitted > 0 &&
	       integer_get(omitted, "wait_us", RECORD_US_MAX, &ret_ranks->omitted_sum.wait_us) &&
	       integer_get(omitted, "asleep_us", RECORD_US_MAX, &ret_ranks->omitted_sum.asleep_us) &&
	       rank_read(json_object_get(omitted, "min"), 2, &ret_ranks->omitted_min) &&
	       rank_read(json_object_get(omitted, "max"), 2, &ret_ranks->omitted_max);
}

bool record_ranks_read(const json_t *wait, struct record_ranks *ret_ranks)
{
	const json_t *ranks = json_object_get(wait, "ranks"), *rank;
	size_t i;

	if (!json_is_array(ranks) || json_array_size(ranks) > MPIWAIT_SLOTS_MAX)
		return false;
	ret_ranks->rank = memory_array(json_array_size(ranks) + 1, sizeof(*ret_ranks->rank));
	if (!ret_ranks->rank)
		return false;
	json_array_foreach(ranks, i, rank)
	{
		if (!rank_read(rank, 3, &ret_ranks->rank[ret_ranks->count++]))
			return false;
	}
	return omitted_read(json_object_get(wait, "omitted"), ret_ranks);
}

static void extremes_add(struct sum_ranks *sum, const struct sum_rank *least, const struct sum_rank *most)
{
	bool first = record_ranks_count(sum) == 0;

	if (first || least->wait_s < sum->min.wait_s)
		sum->min = *least;
	if (first || most->wait_s > sum->max.wait_s)
		sum->max = *most;
}

static void waited_add(struct sum_ranks *sum, struct sum_waited *waited, double ranks, double wait_s, double asleep_s)
{
	sum->total_s += wait_s;
	sum->asleep_s += asleep_s;
	waited->ranks += ranks;
	waited->wait_s += wait_s;
}

void record_ranks_add(struct sum_ranks *sum, const struct record_ranks *from, uint32_t node, uint32_t step,
                      struct sum_waited *waited)
{
	struct sum_rank least = {from->omitted_min.rank, node, 0, seconds_of(from->omitted_min.wait_us), 0};
	struct sum_rank most = {from->omitted_max.rank, node, 0, seconds_of(from->omitted_max.wait_us), 0};

	for (size_t i = 0; i < from->count; i++) {
		const struct record_rank *one = &from->rank[i];
		struct sum_rank rank = {one->rank, node, step, seconds_of(one->wait_us), seconds_of(one->asleep_us)};

		extremes_add(sum, &rank, &rank);
		sum->rank[sum->count++] = rank;
		waited_add(sum, waited, 1, rank.wait_s, rank.asleep_s);
	}
	if (from->omitted == 0)
		return;
	extremes_add(sum, &least, &most);
	sum->omitted += (double)from->omitted;
	waited_add(sum, waited, (double)from->omitted, seconds_of(from->omitted_sum.wait_us),
	           seconds_of(from->omitted_sum.asleep_us));
}

double record_ranks_count(const struct sum_ranks *sum)
{
	return (double)sum->count + sum->omitted;
}

static int rank_compare(const void *left, const void *right)
{
	const struct sum_rank *a = left, *b = right;

	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

static int rank_compare_world(const void *left, const void *right)
{
	const struct sum_rank *a = left, *b = right;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

/* One world, seen whole and once, is listed by rank, whatever steps its ranks came by. */
static bool is_one_world(const struct sum_ranks *sum, double world)
{
	if (sum->count == 0 || sum->omitted > 0 || (double)sum->count != world)
		return false;
	for (size_t i = 0; i < sum->count; i++)
		if (sum->rank[i].rank != (int32_t)i)
			return false;
	return true;
}

void record_ranks_sort(struct sum_ranks *sum, bool is_whole, double world)
{
	qsort(sum->rank, sum->count, sizeof(*sum->rank), rank_compare_world);
	if (!is_whole || !is_one_world(sum, world))
		qsort(sum->rank, sum->count, sizeof(*sum->rank), rank_compare);
}

json_t *record_rank_print(int32_t rank, double seconds, const char *node)
{
	return json_pack("{s:i, s:o, s:s}", "rank", rank, "s", record_seconds(seconds), "node", node);
}

void record_waited_add(struct waited *sum, const struct waited *more)
{
	integer_add(&sum->waits, more->waits, RECORD_US_MAX);
	integer_add(&sum->wait_us, more->wait_us, RECORD_US_MAX);
	if (more->most_us <= sum->most_us)
		return;
	sum->most_us = more->most_us;
	sum->most_rank = more->most_rank;
	sum->most_node = more->most_node;
}

bool record_waited_read(const json_t *row, size_t at, struct waited *ret_waited)
{
	return json_array_size(row) == at + 4 &&
	       integer_of(json_array_get(row, at), RECORD_US_MAX, &ret_waited->waits) &&
	       integer_of(json_array_get(row, at + 1), RECORD_US_MAX, &ret_waited->wait_us) &&
	       integer_of(json_array_get(row, at + 2), RECORD_US_MAX, &ret_waited->most_us) &&
	       rank_of(json_array_get(row, at + 3), &ret_waited->most_rank);
}

void record_waited_print(json_t *json, const struct waited *waited, const struct record_names *names)
{
	json_object_set_new(json, "waits", number((double)waited->waits, 0));
	json_object_set_new(json, "wait_s", record_seconds(seconds_of(waited->wait_us)));
	if (waited->most_us > 0)
		json_object_set_new(json, "max",
		                    record_rank_print(waited->most_rank, seconds_of(waited->most_us),
		                                      names->node[waited->most_node]));
}

static json_t *rank_print(const struct sum_rank *rank, const struct record_names *names)
{
	return record_rank_print(rank->rank, rank->wait_s, names->node[rank->node]);
}

void record_ranks_print_ends(json_t *wait, const struct sum_ranks *sum, const struct record_names *names)
{
	json_object_set_new(wait, "min", rank_print(&sum->min, names));
	json_object_set_new(wait, "max", rank_print(&sum->max, names));
}

static int wait_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static json_t *quantiles_print(const struct sum_ranks *sum)
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

/* The ranks that wait most (sign 1) or least (sign -1), the farthest first; of two alike, the first in the list. */
static json_t *extremes_print(const struct sum_ranks *sum, const struct record_names *names, int sign)
{
	const struct sum_rank *extreme[EXTREMES];
	json_t *json = json_array();
	size_t count = 0;

	for (size_t i = 0; i < sum->count; i++) {
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
		json_t *rank = rank_print(extreme[i], names);

		if (names->step)
			json_object_set_new(rank, "step", json_string(names->step[extreme[i]->step]));
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
static json_t *places_print(const struct sum_ranks *sum, const struct record_names *names)
{
	cleanup_free struct run *runs = NULL;
	size_t count = 0;
	json_t *rows;

	for (size_t i = 0; i < sum->count; i++)
		if (sum->rank[i].node >= count)
			count = sum->rank[i].node + 1;
	runs = count > 1 ? calloc(count, sizeof(*runs)) : NULL;
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

void record_ranks_print(json_t *wait, const struct sum_ranks *sum, const struct record_names *names,
                        const struct record_detail *detail)
{
	json_t *waits = json_array(), *asleep = json_array(), *places;
	bool whole = sum->omitted == 0, listed = detail->ranks && whole;

	for (size_t i = 0; listed && i < sum->count; i++) {
		json_array_append_new(waits, record_seconds(sum->rank[i].wait_s));
		if (detail->asleep)
			json_array_append_new(asleep, record_seconds(sum->rank[i].asleep_s));
	}
	json_object_set_new(wait, "per_rank_s", waits);
	json_object_set_new(wait, "per_rank_asleep_s", asleep);
	if (listed && detail->nodes && (places = places_print(sum, names)))
		json_object_set_new(wait, "per_rank_nodes", places);
	if (listed || !whole)
		return;
	json_object_set_new(wait, "quantiles_s", quantiles_print(sum));
	json_object_set_new(wait, "most", extremes_print(sum, names, 1));
	json_object_set_new(wait, "least", extremes_print(sum, names, -1));
}
