#include "spank/record/node_short.h"

#include "spank/base/memory.h"
#include "spank/record/node.h"

#include <stdlib.h>
#include <string.h>

#define JOB_MAX  (256 * 1024 * 1024)
#define NODE_MIN (64 * 1024)

size_t node_short_most(uint32_t nodes)
{
	size_t most = JOB_MAX / (nodes > 0 ? nodes : 1);

	if (most < NODE_MIN)
		return NODE_MIN;
	return most < NODE_RECORD_MAX ? most : NODE_RECORD_MAX;
}

static void steps_shorten(json_t *record, void (*shorten)(json_t *wait))
{
	json_t *step;
	size_t i;

	json_array_foreach(json_object_get(record, "steps"), i, step)
	{
		shorten(json_object_get(step, "wait"));
	}
}

/* Of those that are there. */
static void summed_count(json_t *record)
{
	json_int_t summed = 0;
	json_t *step;
	size_t i;

	json_array_foreach(json_object_get(record, "steps"), i, step)
	{
		summed += json_object_get(json_object_get(step, "wait"), "omitted") != NULL;
	}
	json_object_set_new(record, "steps_summed", json_integer(summed));
}

/* Half of those that are there. */
static void steps_drop(json_t *record)
{
	json_t *steps = json_object_get(record, "steps");
	json_int_t left_out = json_integer_value(json_object_get(record, "steps_left_out"));
	size_t kept = json_array_size(steps) / 2;

	left_out += (json_int_t)(json_array_size(steps) - kept);
	while (json_array_size(steps) > kept)
		json_array_remove(steps, json_array_size(steps) - 1);
	json_object_set_new(record, "steps_left_out", json_integer(left_out));
}

char *node_short_print(json_t *record, size_t most)
{
	static void (*const shorten[])(json_t * wait) = {record_wait_shorten, record_wait_least};
	char *text = memory_text(record, JSON_COMPACT | JSON_REAL_PRECISION(15));

	for (size_t i = 0; text && strlen(text) > most; i++) {
		if (i >= 2 && json_array_size(json_object_get(record, "steps")) == 0)
			break;
		free(text);
		if (i < 2)
			steps_shorten(record, shorten[i]);
		else
			steps_drop(record);
		summed_count(record);
		text = memory_text(record, JSON_COMPACT | JSON_REAL_PRECISION(15));
	}
	return text;
}
