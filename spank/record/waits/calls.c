#include "spank/record/waits/calls.h"

#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/parts/number.h"
#include "spank/record/waits/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void record_call_add(struct record_call *sum, const struct record_call *more)
{
	integer_add(&sum->calls, more->calls, RECORD_US_MAX);
	integer_add(&sum->waits, more->waits, RECORD_US_MAX);
	integer_add(&sum->wait_us, more->wait_us, RECORD_US_MAX);
	if (more->longest_us > sum->longest_us)
		sum->longest_us = more->longest_us;
}

void record_call_write(json_t *calls, const char *name, const struct record_call *call)
{
	json_object_set_new(calls, name,
	                    json_pack("[I, I, I, I]", (json_int_t)call->calls, (json_int_t)call->waits,
	                              (json_int_t)call->wait_us, (json_int_t)call->longest_us));
}

bool record_call_name_ok(const char *name)
{
	return strncmp(name, "MPI_", 4) == 0 && name[4] && strlen(name) < RECORD_CALL_NAME_MAX &&
	       characters_ok(name + 4, JSON_LETTERS "_");
}

bool record_calls_read(json_t *json, struct record_calls *ret_calls)
{
	const char *name;
	json_t *call;

	if (!json_is_object(json) || json_object_size(json) > MPIWAIT_CALLS + 1)
		return false;
	ret_calls->call = memory_array(json_object_size(json) + 1, sizeof(*ret_calls->call));
	if (!ret_calls->call)
		return false;
	json_object_foreach(json, name, call)
	{
		struct record_call *have = &ret_calls->call[ret_calls->count++];

		snprintf(have->name, sizeof(have->name), "%s", name);
		if ((strcmp(name, "other") != 0 && !record_call_name_ok(name)) ||
		    !integer_of(json_array_get(call, 0), RECORD_US_MAX, &have->calls) ||
		    !integer_of(json_array_get(call, 1), RECORD_US_MAX, &have->waits) ||
		    !integer_of(json_array_get(call, 2), RECORD_US_MAX, &have->wait_us) ||
		    !integer_of(json_array_get(call, 3), RECORD_US_MAX, &have->longest_us))
			return false;
	}
	return true;
}

/* More names than there are MPI functions: the last place takes the rest. */
static struct record_call *call_find(struct sum_calls *sum, const char *name)
{
	bool full = sum->count >= sizeof(sum->call) / sizeof(sum->call[0]);
	struct record_call *call;

	for (size_t i = 0; i < sum->count; i++)
		if (strcmp(sum->call[i].name, name) == 0)
			return &sum->call[i];
	call = &sum->call[full ? sum->count - 1 : sum->count++];
	snprintf(call->name, sizeof(call->name), "%s", full ? "other" : name);
	return call;
}

void record_calls_add(struct sum_calls *sum, const struct record_calls *from)
{
	for (size_t i = 0; i < from->count; i++)
		record_call_add(call_find(sum, from->call[i].name), &from->call[i]);
}

static int call_compare(const void *left, const void *right)
{
	const struct record_call *a = left, *b = right;

	if (a->wait_us != b->wait_us)
		return a->wait_us < b->wait_us ? 1 : -1;
	return strcmp(a->name, b->name);
}

void record_calls_sort(struct sum_calls *sum)
{
	qsort(sum->call, sum->count, sizeof(*sum->call), call_compare);
}

static void call_print(json_t *calls, const char *name, const struct record_call *call)
{
	json_object_set_new(calls, name,
	                    json_pack("{s:o, s:o, s:o, s:o}", "calls", number((double)call->calls, 0), "waits",
	                              number((double)call->waits, 0), "wait_s",
	                              record_seconds(seconds_of(call->wait_us)), "longest_s",
	                              record_seconds(seconds_of(call->longest_us))));
}

json_t *record_calls_print(const struct sum_calls *sum, size_t shown)
{
	struct record_call other = {.name = ""};
	json_t *calls = json_object();
	size_t printed = 0;

	for (size_t i = 0; i < sum->count; i++) {
		const struct record_call *call = &sum->call[i];

		if (call->waits == 0 && call->wait_us == 0)
			continue; /* on no node */
		if (printed < shown && strcmp(call->name, "other") != 0) {
			call_print(calls, call->name, call);
			printed++;
			continue;
		}
		strcpy(other.name, "other");
		record_call_add(&other, call);
	}
	if (other.name[0])
		call_print(calls, other.name, &other);
	return calls;
}
