#include "spank/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 4611686018427387904LL /* 2^62, as slots.c adds up to */
#define DIGITS     6

static bool number_ok(const json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= NUMBER_MAX;
}

static bool name_ok(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";

	return strncmp(name, "MPI_", 4) == 0 && name[4] && strlen(name) < sizeof(((struct profile_call *)0)->name) &&
	       name[strspn(name, letters)] == '\0';
}

/* [calls, time_us, wait_us, bytes, [sizes]] */
static bool call_ok(const json_t *call)
{
	const json_t *sizes = json_array_get(call, 4), *number;
	size_t i;

	if (json_array_size(call) != 5 || !json_is_array(sizes) || json_array_size(sizes) > MPIWAIT_SIZES)
		return false;
	for (i = 0; i < 4; i++)
		if (!number_ok(json_array_get(call, i)))
			return false;
	json_array_foreach(sizes, i, number)
	{
		if (!number_ok(number))
			return false;
	}
	return true;
}

bool profile_is_good(const json_t *json)
{
	const char *name;
	json_t *call;

	if (!json)
		return true;
	if (!json_is_object(json) || json_object_size(json) > MPIWAIT_CALLS)
		return false;
	json_object_foreach((json_t *)json, name, call)
	{
		if (!name_ok(name) || !call_ok(call))
			return false;
	}
	return true;
}

static double at(const json_t *array, size_t index)
{
	return (double)json_integer_value(json_array_get(array, index));
}

/* NULL: no room. */
static struct profile_call *call_find(struct profile *profile, const char *name)
{
	struct profile_call *call = profile->call;

	for (size_t i = 0; i < profile->count; i++, call++)
		if (strcmp(call->name, name) == 0)
			return call;
	if (profile->count >= sizeof(profile->call) / sizeof(profile->call[0]))
		return NULL;
	profile->count++;
	snprintf(call->name, sizeof(call->name), "%s", name);
	return call;
}

void profile_add(struct profile *profile, const json_t *json)
{
	const char *name;
	json_t *from;

	json_object_foreach((json_t *)json, name, from)
	{
		struct profile_call *call = call_find(profile, name);
		const json_t *sizes = json_array_get(from, 4);

		if (!call)
			continue;
		call->calls += at(from, 0);
		call->time_s += at(from, 1) / 1e6;
		call->wait_s += at(from, 2) / 1e6;
		call->bytes += at(from, 3);
		for (size_t i = 0; i < json_array_size(sizes) && i < MPIWAIT_SIZES; i++)
			call->sizes[i] += at(sizes, i);
	}
}

static int call_compare(const void *left, const void *right)
{
	const struct profile_call *a = left, *b = right;

	if (a->time_s != b->time_s)
		return a->time_s < b->time_s ? 1 : -1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->name, b->name);
}

/* An integer as long as it is one that every reader of JSON can hold. */
static json_t *whole(double value)
{
	return value < 9007199254740992.0 ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *seconds(double value)
{
	double scale = pow(10, DIGITS), rounded = round(fmin(value, 1e12) * scale) / scale;

	return rounded == floor(rounded) ? json_integer((json_int_t)rounded) : json_real(rounded);
}

static json_t *sizes_print(const struct profile_call *call)
{
	json_t *sizes = json_object();
	char key[24];

	for (size_t i = 0; i < MPIWAIT_SIZES; i++) {
		if (call->sizes[i] == 0)
			continue;
		snprintf(key, sizeof(key), "%llu", i == 0 ? 0ULL : 1ULL << (i - 1));
		json_object_set_new(sizes, key, whole(call->sizes[i]));
	}
	return sizes;
}

static void call_print(json_t *calls, const struct profile_call *call, bool with_sizes)
{
	json_t *json = json_pack("{s:o, s:o, s:o, s:o}", "calls", whole(call->calls), "time_s", seconds(call->time_s),
	                         "wait_s", seconds(fmin(call->wait_s, call->time_s)), "bytes", whole(call->bytes));
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

	if (profile->count == 0)
		return NULL;
	qsort(profile->call, profile->count, sizeof(profile->call[0]), call_compare);
	calls = json_object();
	for (size_t i = 0; i < profile->count; i++) {
		const struct profile_call *call = &profile->call[i];

		if (i < shown) {
			call_print(calls, call, with_sizes);
			continue;
		}
		other.calls += call->calls;
		other.time_s += call->time_s;
		other.wait_s += call->wait_s;
		other.bytes += call->bytes;
	}
	if (profile->count > shown)
		call_print(calls, &other, false);
	return calls;
}
