#include "spank/step_sums.h"

#include <stddef.h>

#define OMITTED_MAX 1000000000000000000 /* us, what record_node.c takes */

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

void step_sums_ranks(json_t *wait)
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
	wait_us = wait_us < OMITTED_MAX ? wait_us : OMITTED_MAX;
	asleep_us = asleep_us < OMITTED_MAX ? asleep_us : OMITTED_MAX;
	json_object_set_new(wait, "omitted",
	                    json_pack("{s:I, s:I, s:I, s:o, s:o}", "count", (json_int_t)json_array_size(ranks),
	                              "wait_us", wait_us, "asleep_us", asleep_us, "min", extreme(ranks, 1), "max",
	                              extreme(ranks, -1)));
	json_object_set_new(wait, "ranks", json_array());
}

void step_sums_keep(json_t *wait)
{
	step_sums_ranks(wait);
	json_object_del(wait, "profile");
}

void step_sums_least(json_t *wait)
{
	static const char *const details[] = {"hooks", "flags", "spun"};

	step_sums_keep(wait);
	json_object_clear(json_object_get(wait, "calls"));
	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++)
		json_object_del(wait, details[i]);
}
