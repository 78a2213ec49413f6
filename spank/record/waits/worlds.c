#include "spank/record/waits/worlds.h"

#include "preload/contract/stats.h"
#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/parts/number.h"
#include "spank/record/waits/runs.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 64 /* most rows of the job's table, and most runs of numbers in a row */

uint32_t record_worlds_put(json_t *wait, uint64_t launch, uint32_t size)
{
	json_t *table = json_object_get(wait, "worlds"), *row;
	json_int_t number = (json_int_t)(launch & WORLD_LAUNCH_MAX);
	size_t i;

	if (!table)
		json_object_set_new(wait, "worlds", table = json_array());
	json_array_foreach(table, i, row)
	{
		json_t *ranks = json_array_get(row, 2);

		if (json_integer_value(json_array_get(row, 0)) != number ||
		    json_integer_value(json_array_get(row, 1)) != size)
			continue;
		json_integer_set(ranks, json_integer_value(ranks) + 1);
		return (uint32_t)i;
	}
	json_array_append_new(table, json_pack("[I, I, i]", number, (json_int_t)size, 1));
	return (uint32_t)json_array_size(table) - 1;
}

void record_worlds_shorten(json_t *wait)
{
	json_t *table = json_object_get(wait, "worlds"), *row;
	json_int_t ranks = 0;
	size_t i;

	if (json_array_size(table) < 2)
		return;
	json_array_foreach(table, i, row) ranks += json_integer_value(json_array_get(row, 2));
	json_object_set_new(wait, "worlds", json_pack("[[i, i, I]]", 0, 0, ranks));
}

static bool world_read(const json_t *row, struct record_world *ret_world)
{
	uint64_t size;
	bool good = json_array_size(row) == 3 &&
	            integer_of(json_array_get(row, 0), WORLD_LAUNCH_MAX, &ret_world->launch) &&
	            integer_of(json_array_get(row, 1), RECORD_RANK_MAX, &size) &&
	            whole_of(json_array_get(row, 2), MPIWAIT_SLOTS_MAX, &ret_world->ranks);

	if (good)
		ret_world->size = (uint32_t)size;
	return good;
}

bool record_worlds_read(const json_t *wait, struct record_ranks *ranks)
{
	const json_t *table = json_object_get(wait, "worlds"), *row;
	double count = 0;
	size_t i;

	if (!table)
		return true;
	if (!json_is_array(table) || json_array_size(table) > MPIWAIT_SLOTS_MAX)
		return false;
	ranks->world = memory_array(json_array_size(table) + 1, sizeof(*ranks->world));
	if (!ranks->world)
		return false;
	json_array_foreach(table, i, row)
	{
		if (!world_read(row, &ranks->world[i]))
			return false;
		count += ranks->world[i].ranks;
	}
	ranks->world_count = json_array_size(table);
	for (i = 0; i < ranks->count; i++)
		if (ranks->rank[i].world >= ranks->world_count)
			return false;
	return count == record_ranks_count(ranks);
}

uint32_t record_worlds_add(struct record_ranks *sum, const struct record_ranks *from, uint32_t node, uint32_t step)
{
	uint32_t first = (uint32_t)sum->world_count;

	for (size_t i = 0; i < from->world_count; i++) {
		struct record_world *world = &sum->world[sum->world_count++];

		*world = from->world[i];
		world->index = (uint32_t)i;
		world->node = node;
		world->step = step;
	}
	sum->worldless |= from->world_count == 0 && record_ranks_count(from) > 0;
	return first;
}

bool record_worlds_known(const struct record_ranks *ranks)
{
	bool known = false;

	for (size_t i = 0; i < ranks->world_count; i++)
		known |= ranks->world[i].launch != 0;
	return known;
}

/* Orders parts of worlds. Equal ones are parts of one world; without a launch, only if they are of one step. */
static int part_compare(const struct record_world *a, const struct record_world *b)
{
	if (a->launch != b->launch)
		return a->launch < b->launch ? -1 : 1;
	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	return a->launch == 0 ? (a->step > b->step) - (a->step < b->step) : 0;
}

/* Orders worlds by the first step that started ranks of them, then as that step's nodes list them. */
static int begin_compare(const struct record_world *a, const struct record_world *b)
{
	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

static int order_of_parts(const void *left, const void *right)
{
	int order = part_compare(left, right);

	return order ? order : begin_compare(left, right);
}

static int order_of_begin(const void *left, const void *right)
{
	return begin_compare(left, right);
}

static int order_of_number(const void *left, const void *right)
{
	const struct record_rank *a = left, *b = right;

	if (a->world != b->world)
		return a->world < b->world ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

/*
 * Joins neighbours that are parts of one world. Returns the number of worlds; joined[former index of a part] becomes
 * the index of its world.
 */
static size_t parts_merge(struct record_world *world, size_t parts, uint32_t *joined)
{
	size_t count = 0;

	for (size_t i = 0; i < parts; i++) {
		struct record_world part = world[i], *last = count > 0 ? &world[count - 1] : NULL;

		if (last && part_compare(last, &part) == 0) {
			last->ranks += part.ranks;
			last->spans |= last->step != part.step;
		} else {
			world[count++] = part;
		}
		joined[part.former] = (uint32_t)count - 1;
	}
	return count;
}

/* Corrects a rank's index of its world, after worlds were joined and sorted. */
static void rank_move(struct record_rank *rank, const uint32_t *joined, const uint32_t *sorted)
{
	if (rank->world != WORLD_NONE)
		rank->world = sorted[joined[rank->world]];
}

/*
 * Joins the parts of worlds, sorts the worlds by begin, and updates the ranks' indexes. Returns false without memory.
 */
static bool parts_join(struct record_ranks *ranks)
{
	size_t parts = ranks->world_count;
	uint32_t *joined = memory_array(parts + 1, sizeof(*joined)), *sorted = memory_array(parts + 1, sizeof(*sorted));
	bool made = joined && sorted;

	for (size_t i = 0; made && i < parts; i++)
		ranks->world[i].former = (uint32_t)i;
	if (made) {
		qsort(ranks->world, parts, sizeof(ranks->world[0]), order_of_parts);
		ranks->world_count = parts_merge(ranks->world, parts, joined);
		for (size_t i = 0; i < ranks->world_count; i++)
			ranks->world[i].former = (uint32_t)i;
		qsort(ranks->world, ranks->world_count, sizeof(ranks->world[0]), order_of_begin);
		for (size_t i = 0; i < ranks->world_count; i++)
			sorted[ranks->world[i].former] = (uint32_t)i;
		for (size_t i = 0; i < ranks->count; i++)
			rank_move(&ranks->rank[i], joined, sorted);
		rank_move(&ranks->min, joined, sorted);
		rank_move(&ranks->max, joined, sorted);
	}
	free(joined);
	free(sorted);
	return made;
}

/* Numbers ranks by their Slurm task if they are alone and were not launched as one, or if MPI gave them no number. */
static void tasks_choose(struct record_ranks *ranks)
{
	for (size_t i = 0; i < ranks->world_count; i++) {
		struct record_world *world = &ranks->world[i];
		bool is_known = world->size > 0 || world->launch != 0;

		world->kind = world->size == 1 && world->ranks > 1          ? WORLD_SINGLETONS
		              : is_known && world->ranks <= RECORD_RANK_MAX ? WORLD_LAUNCHED
		                                                            : WORLD_UNKNOWN;
		world->by_task = world->kind != WORLD_LAUNCHED;
	}
	for (size_t i = 0; i < ranks->count; i++) {
		struct record_world *world = &ranks->world[ranks->rank[i].world];

		if (ranks->rank[i].rank >= 0 || world->kind == WORLD_SINGLETONS)
			continue;
		world->kind = WORLD_UNKNOWN;
		world->by_task = true;
	}
}

/* Sets the number under which the rank is shown. */
static void number_choose(const struct record_ranks *ranks, struct record_rank *rank)
{
	bool by_task = rank->world != WORLD_NONE && ranks->world[rank->world].by_task;

	rank->number = by_task ? rank->task : rank->rank;
}

/*
 * Checks the numbers of a world's ranks, which are neighbours in the list. Without a complete list nothing is
 * concluded.
 */
static void world_check(const struct record_ranks *ranks, struct record_world *world)
{
	const struct record_rank *rank = &ranks->rank[world->first];
	bool is_listed = (double)world->listed == world->ranks, repeats = false;

	world->numbered = is_listed && rank[0].number >= 0;
	world->whole = true;
	for (size_t i = 0; is_listed && i < world->listed; i++) {
		repeats |= i > 0 && rank[i].number == rank[i - 1].number;
		world->whole &= rank[i].number == (int32_t)i;
	}
	if (world->kind == WORLD_LAUNCHED && (repeats || (world->size > 0 && world->ranks > world->size))) {
		world->kind = WORLD_UNKNOWN;
		world->numbered = false;
	}
}

/* Finds the ranks of each world in the sorted list, and checks their numbers. */
static void worlds_check(struct record_ranks *ranks)
{
	size_t at = 0;

	for (size_t i = 0; i < ranks->world_count; i++) {
		struct record_world *world = &ranks->world[i];

		for (world->first = at; at < ranks->count && ranks->rank[at].world == i; at++)
			world->listed++;
		world_check(ranks, world);
	}
}

/* Returns true if each step has one complete world, so that an index in the list identifies a rank. */
static bool is_plain(const struct record_ranks *ranks)
{
	for (size_t i = 0; i < ranks->world_count; i++) {
		const struct record_world *world = &ranks->world[i];

		if (world->kind != WORLD_LAUNCHED || world->spans || !world->whole || world->ranks < world->size ||
		    (i > 0 && world->step == ranks->world[i - 1].step))
			return false;
	}
	return true;
}

bool record_worlds_settle(struct record_ranks *ranks)
{
	if (ranks->worldless || ranks->world_count == 0 || !parts_join(ranks))
		return false;
	tasks_choose(ranks);
	for (size_t i = 0; i < ranks->count; i++)
		number_choose(ranks, &ranks->rank[i]);
	number_choose(ranks, &ranks->min);
	number_choose(ranks, &ranks->max);
	qsort(ranks->rank, ranks->count, sizeof(ranks->rank[0]), order_of_number);
	worlds_check(ranks);
	ranks->several = !is_plain(ranks);
	ranks->apart = ranks->several && (ranks->world_count > 1 || ranks->world[0].kind != WORLD_LAUNCHED);
	return ranks->several;
}

/* Returns the ranks' numbers as runs; NULL if they are unknown, or a launched world's from 0 on. */
static json_t *numbers_print(const struct record_ranks *ranks, const struct record_world *world)
{
	json_t *rows;
	struct run run = {.count = 0};

	if (!world->numbered || (world->whole && !world->by_task))
		return NULL;
	rows = json_array();
	for (size_t i = 0; i < world->listed; i++)
		run_add(rows, &run, (size_t)ranks->rank[world->first + i].number, NULL);
	run_end(rows, &run, NULL);
	return rows;
}

/* Returns how many worlds from `at` on are complete and equal, and share a row. */
static size_t alike_count(const struct record_ranks *ranks, size_t at)
{
	const struct record_world *first = &ranks->world[at];
	size_t count = 1;

	for (; at + count < ranks->world_count; count++) {
		const struct record_world *world = &ranks->world[at + count];

		if (world->kind != WORLD_LAUNCHED || first->kind != WORLD_LAUNCHED || world->spans || first->spans ||
		    world->step != first->step || world->size != first->size || world->ranks != first->ranks ||
		    !world->numbered || !world->whole || !first->numbered || !first->whole)
			break;
	}
	return count;
}

static json_t *row_print(const struct record_ranks *ranks, const struct record_names *names, size_t at, size_t count)
{
	static const char *const kinds[] = {
	        [WORLD_LAUNCHED] = "launched", [WORLD_SINGLETONS] = "singletons", [WORLD_UNKNOWN] = "unknown"};
	const struct record_world *world = &ranks->world[at];
	json_t *numbers = numbers_print(ranks, world);
	bool unsaid = json_array_size(numbers) > ROWS_MAX;
	json_t *row = json_pack("{s:s, s:o}", "kind", kinds[unsaid ? WORLD_UNKNOWN : world->kind], "ranks",
	                        number(world->ranks * (double)count, 0));

	object_set_some(row, "worlds", json_integer(count > 1 ? (json_int_t)count : 0));
	object_set_some(row, "size", json_integer(world->size));
	object_set_some(row, "step", json_string(names->step && !world->spans ? names->step[world->step] : NULL));
	object_set_some(row, "numbers", unsaid ? NULL : json_incref(numbers));
	json_decref(numbers);
	return row;
}

json_t *record_worlds_print(const struct record_ranks *ranks, const struct record_names *names)
{
	json_t *table = ranks->several ? json_array() : NULL;
	double others = 0;
	size_t count;

	for (size_t i = 0; table && i < ranks->world_count; i += count) {
		count = alike_count(ranks, i);
		if (json_array_size(table) < ROWS_MAX)
			json_array_append_new(table, row_print(ranks, names, i, count));
		else
			others += ranks->world[i].ranks * (double)count;
	}
	if (others > 0)
		json_array_append_new(table, json_pack("{s:s, s:o}", "kind", "unknown", "ranks", number(others, 0)));
	return table;
}
