#include "spank/record/waits/profile.h"

#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/parts/number.h"
#include "spank/record/waits/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX INT64_C(4611686018427387904) /* 2^62, as slots.c adds up to */
#define CALLS_MAX  (MPIWAIT_CALLS + 1)
#define DIGITS     6
#define SECOND_US  1e6

void profile_write(json_t *profile, const char *name, const uint64_t numbers[4], const uint64_t sizes[MPIWAIT_SIZES])
{
	json_t *row = json_array(), *classes = json_array();
	size_t used = MPIWAIT_SIZES;

	while (used > 0 && sizes[used - 1] == 0)
		used--;
	for (size_t i = 0; i < 4; i++)
		json_array_append_new(row, json_integer((json_int_t)numbers[i]));
	for (size_t i = 0; i < used; i++)
		json_array_append_new(classes, json_integer((json_int_t)sizes[i]));
	json_array_append_new(row, classes);
	json_object_set_new(profile, name, row);
}

static bool number_read(const json_t *array, size_t index, double *ret_number)
{
	uint64_t number;
	bool good = integer_of(json_array_get(array, index), NUMBER_MAX, &number);

	*ret_number = (double)number;
	return good;
}

/* [calls, time_us, wait_us, bytes, [sizes]] */
static bool call_read(const json_t *json, struct profile_call *ret_call)
{
	const json_t *sizes = json_array_get(json, 4);

	if (json_array_size(json) != 5 || !json_is_array(sizes) || json_array_size(sizes) > MPIWAIT_SIZES ||
	    !number_read(json, 0, &ret_call->calls) || !number_read(json, 1, &ret_call->time_us) ||
	    !number_read(json, 2, &ret_call->wait_us) || !number_read(json, 3, &ret_call->bytes))
		return false;
	for (size_t i = 0; i < json_array_size(sizes); i++)
		if (!number_read(sizes, i, &ret_call->sizes[i]))
			return false;
	return true;
}

/* NULL: no room. */
static struct profile_call *call_find(struct profile **profile, const char *name)
{
	size_t count = *profile ? (*profile)->count : 0, room = *profile ? (*profile)->room : 0;
	struct profile_call *call;

	for (size_t i = 0; i < count; i++)
		if (strcmp((*profile)->call[i].name, name) == 0)
			return &(*profile)->call[i];
	if (count == CALLS_MAX)
		return NULL;
	if (count == room) {
		struct profile *bigger = memory_array(1, sizeof(*bigger) + 2 * (room + 4) * sizeof(bigger->call[0]));

		if (!bigger)
			return NULL;
		if (room)
			memcpy(bigger, *profile, sizeof(*bigger) + count * sizeof(bigger->call[0]));
		bigger->room = 2 * (room + 4);
		free(*profile);
		*profile = bigger;
	}
	call = &(*profile)->call[(*profile)->count++];
	snprintf(call->name, sizeof(call->name), "%s", name);
	return call;
}

static void call_add(struct profile_call *sum, const struct profile_call *from)
{
	sum->calls += from->calls;
	sum->time_us += from->time_us;
	sum->wait_us += from->wait_us;
	sum->bytes += from->bytes;
	for (size_t i = 0; i < MPIWAIT_SIZES; i++)
		sum->sizes[i] += from->sizes[i];
}

static void profile_put(struct profile **profile, const struct profile_call *from)
{
	struct profile_call *call = call_find(profile, from->name);

	if (call)
		call_add(call, from);
}

bool profile_read(const json_t *json, struct profile **profile)
{
	const char *name;
	json_t *row;

	if (json && (!json_is_object(json) || json_object_size(json) > MPIWAIT_CALLS))
		return false;
	json_object_foreach((json_t *)json, name, row)
	{
		struct profile_call call = {.calls = 0};

		if (!record_call_name_ok(name) || !call_read(row, &call))
			return false;
		snprintf(call.name, sizeof(call.name), "%s", name);
		profile_put(profile, &call);
	}
	return true;
}

void profile_add(struct profile **sum, const struct profile *from)
{
	for (size_t i = 0; from && i < from->count; i++)
		profile_put(sum, &from->call[i]);
}

static int call_compare(const void *left, const void *right)
{
	const struct profile_call *a = left, *b = right;

	if (a->time_us != b->time_us)
		return a->time_us < b->time_us ? 1 : -1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->name, b->name);
}

static json_t *time_print(double us)
{
	return number(fmin(us / SECOND_US, RECORD_SECONDS_MAX), DIGITS);
}

static json_t *sizes_print(const struct profile_call *call)
{
	json_t *sizes = json_object();
	char key[24];

	for (size_t i = 0; i < MPIWAIT_SIZES; i++) {
		if (call->sizes[i] == 0)
			continue;
		snprintf(key, sizeof(key), "%llu", i == 0 ? 0ULL : 1ULL << (i - 1));
		json_object_set_new(sizes, key, number_whole(call->sizes[i]));
	}
	return sizes;
}

static void call_print(json_t *calls, const struct profile_call *call, bool with_sizes)
{
	json_t *json = json_pack("{s:o, s:o, s:o, s:o}", "calls", number_whole(call->calls), "time_s",
	                         time_print(call->time_us), "wait_s", time_print(fmin(call->wait_us, call->time_us)),
	                         "bytes", number_whole(call->bytes));
	json_t *sizes = with_sizes ? sizes_print(call) : NULL;

	if (json && json_object_size(sizes) > 0)
		json_object_set(json, "sizes", sizes);
	json_decref(sizes);
	json_object_set_new(calls, call->name, json);
}

json_t *profile_print(struct profile *profile, size_t shown, bool with_sizes)
{
	struct profile_call other = {.name = "other"};
	json_t *calls;

	qsort(profile->call, profile->count, sizeof(profile->call[0]), call_compare);
	calls = json_object();
	for (size_t i = 0; i < profile->count; i++) {
		const struct profile_call *call = &profile->call[i];

		if (i < shown) {
			call_print(calls, call, with_sizes);
			continue;
		}
		call_add(&other, call);
	}
	if (profile->count > shown)
		call_print(calls, &other, false);
	return calls;
}
