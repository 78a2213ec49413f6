#include "spank/record/waits/service.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"
#include "spank/record/waits/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in preload/stats.h, the names by bit. */
static const char *const hook_names[] = {
#define HOOK(name, ...) #name,
#include "spank/record/record_fields.def"
};
static const char *const flag_names[] = {
#define FLAG(name, ...) #name,
#include "spank/record/record_fields.def"
};

enum type { TYPE_count, TYPE_seconds };

static const struct {
	const char *name; /* in the job's record */
	enum type type;
} forecasts[] = {
#define FORECAST(name, type, ...) {#name, TYPE_##type},
#include "spank/record/record_fields.def"
};
static const char *const forecast_keys[] = {
#define FORECAST(name, type, presence, by, since, csv, text, key) #key,
#include "spank/record/record_fields.def"
};

_Static_assert(sizeof(hook_names) / sizeof(hook_names[0]) == MPIWAIT_HOOKS, "each hook has a row");
_Static_assert(sizeof(flag_names) / sizeof(flag_names[0]) == SERVICE_FLAGS, "each flag has a row");
_Static_assert(sizeof(forecasts) / sizeof(forecasts[0]) == SERVICE_FORECAST_COUNT, "each forecast has a row");

static int spun_compare(const void *left, const void *right)
{
	const struct service_spun *a = left, *b = right;

	if (a->burned_us != b->burned_us)
		return a->burned_us > b->burned_us ? -1 : 1;
	return strcmp(a->name, b->name);
}

void service_add_spun(struct service *service, const char *name, uint64_t burned_us, uint64_t cpu_us)
{
	struct service_spun *have = NULL;

	for (size_t i = 0; i < service->spun_count && !have; i++)
		if (strcmp(service->spun[i].name, name) == 0)
			have = &service->spun[i];
	if (!have && service->spun_count == SERVICE_SPUN_MAX) {
		have = &service->spun[SERVICE_SPUN_MAX - 1];
		if (have->burned_us >= burned_us)
			return;
		have->name[0] = '\0';
	}
	if (!have)
		have = &service->spun[service->spun_count++];
	if (strcmp(have->name, name) != 0) {
		*have = (struct service_spun){.burned_us = 0};
		snprintf(have->name, sizeof(have->name), "%s", name);
	}
	integer_add(&have->burned_us, burned_us, JSON_COUNT_MAX);
	integer_add(&have->cpu_us, cpu_us, JSON_COUNT_MAX);
	qsort(service->spun, service->spun_count, sizeof(service->spun[0]), spun_compare);
}

void service_add(struct service *sum, const struct service *more)
{
	for (size_t i = 0; i < MPIWAIT_HOOKS; i++)
		integer_add(&sum->polls[i], more->polls[i], JSON_COUNT_MAX);
	for (size_t i = 0; i < SERVICE_FLAGS; i++)
		integer_add(&sum->ranks[i], more->ranks[i], JSON_COUNT_MAX);
	for (size_t i = 0; i < SERVICE_FORECAST_COUNT; i++)
		integer_add(&sum->forecast[i], more->forecast[i], JSON_COUNT_MAX);
	for (size_t i = 0; i < more->spun_count; i++)
		service_add_spun(sum, more->spun[i].name, more->spun[i].burned_us, more->spun[i].cpu_us);
}

static void counts_write(json_t *wait, const char *key, const char *const names[], const uint64_t counts[],
                         size_t count)
{
	json_t *json = json_object();

	for (size_t i = 0; i < count; i++)
		if (counts[i] > 0)
			json_object_set_new(json, names[i], json_integer((json_int_t)counts[i]));
	if (json_object_size(json) > 0)
		json_object_set(wait, key, json);
	json_decref(json);
}

static void head_write(const struct service *service, json_t *wait)
{
	counts_write(wait, "hooks", hook_names, service->polls, MPIWAIT_HOOKS);
	counts_write(wait, "flags", flag_names, service->ranks, SERVICE_FLAGS);
	if (service->spun_count > 0)
		json_object_set_new(wait, "spun", json_object());
}

void service_write(const struct service *service, json_t *wait)
{
	head_write(service, wait);
	counts_write(wait, "forecast", forecast_keys, service->forecast, SERVICE_FORECAST_COUNT);
	for (size_t i = 0; i < service->spun_count; i++)
		json_object_set_new(json_object_get(wait, "spun"), service->spun[i].name,
		                    json_pack("[I, I]", (json_int_t)service->spun[i].burned_us,
		                              (json_int_t)service->spun[i].cpu_us));
}

static json_t *forecast_print(const uint64_t forecast[])
{
	json_t *json = json_object();

	for (size_t i = 0; i < SERVICE_FORECAST_COUNT; i++)
		json_object_set_new(json, forecasts[i].name,
		                    forecasts[i].type == TYPE_count ? json_integer((json_int_t)forecast[i])
		                                                    : record_seconds_of(forecast[i]));
	return json;
}

void service_print(const struct service *service, json_t *wait)
{
	head_write(service, wait);
	if (service->forecast[SERVICE_ALLOWED_US] > 0)
		json_object_set_new(wait, "forecast", forecast_print(service->forecast));
	for (size_t i = 0; i < service->spun_count; i++)
		json_object_set_new(json_object_get(wait, "spun"), service->spun[i].name,
		                    json_pack("{s:o, s:o}", "s", record_seconds_of(service->spun[i].burned_us), "cpu_s",
		                              record_seconds_of(service->spun[i].cpu_us)));
}

/* Names of another release are passed over. */
static bool counts_read(const json_t *wait, const char *key, const char *const names[], size_t count,
                        uint64_t ret_counts[])
{
	const json_t *json = json_object_get(wait, key);

	if (json && !json_is_object(json))
		return false;
	for (size_t i = 0; i < count; i++) {
		const json_t *value = json_object_get(json, names[i]);

		if (value && !integer_of(value, JSON_COUNT_MAX, &ret_counts[i]))
			return false;
	}
	return true;
}

static bool spun_read(const json_t *wait, struct service *service)
{
	json_t *spun = json_object_get(wait, "spun"), *value;
	const char *name;

	if (spun && (!json_is_object(spun) || json_object_size(spun) > SERVICE_SPUN_MAX))
		return false;
	json_object_foreach(spun, name, value)
	{
		uint64_t burned_us, cpu_us;

		if ((strcmp(name, "other") != 0 && !record_call_name_ok(name)) || json_array_size(value) != 2 ||
		    !integer_of(json_array_get(value, 0), JSON_COUNT_MAX, &burned_us) ||
		    !integer_of(json_array_get(value, 1), JSON_COUNT_MAX, &cpu_us))
			return false;
		service_add_spun(service, name, burned_us, cpu_us);
	}
	return true;
}

bool service_read(const json_t *wait, struct service *ret_service)
{
	*ret_service = (struct service){.spun_count = 0};
	return counts_read(wait, "hooks", hook_names, MPIWAIT_HOOKS, ret_service->polls) &&
	       counts_read(wait, "flags", flag_names, SERVICE_FLAGS, ret_service->ranks) &&
	       counts_read(wait, "forecast", forecast_keys, SERVICE_FORECAST_COUNT, ret_service->forecast) &&
	       spun_read(wait, ret_service);
}
