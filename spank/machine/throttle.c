#include "spank/machine/throttle.h"

#include "spank/base/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	bool per_core;
} kinds[THROTTLE_KIND_COUNT] = {
        [THROTTLE_CORE] = {"core_throttle", true},
        [THROTTLE_PACKAGE] = {"package_throttle", false},
        [THROTTLE_CORE_POWER] = {"core_power_limit", true},
        [THROTTLE_PACKAGE_POWER] = {"package_power_limit", false},
};

const char *throttle_kind_name(enum throttle_kind kind)
{
	return kinds[kind].name;
}

static struct throttle_package *package_of(struct throttle *throttle, int32_t id)
{
	for (uint32_t i = 0; i < throttle->count; i++)
		if (throttle->package[i].id == id)
			return &throttle->package[i];
	if (throttle->count == PACKAGES_MAX)
		return NULL;
	throttle->package[throttle->count] = (struct throttle_package){.id = id};
	return &throttle->package[throttle->count++];
}

/*
 * Adds a processor's counts to its package: those of its core, and the package's own, of which the largest seen counts.
 */
static void cpu_add(struct throttle *throttle, uint32_t cpu)
{
	struct throttle_package *package = NULL;

	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++) {
		char file[64];
		uint64_t events;

		snprintf(file, sizeof(file), "thermal_throttle/%s_count", kinds[kind].name);
		if (!processors_number(cpu, file, &events) || events > INT64_MAX / PROCESSORS_MAX)
			continue;
		if (!package)
			package = package_of(throttle, processors_package(cpu));
		if (!package)
			return;
		if (kinds[kind].per_core)
			package->events[kind] += events;
		else if (events > package->events[kind])
			package->events[kind] = events;
	}
}

void throttle_read(struct throttle *ret_throttle)
{
	struct throttle throttle = {0};
	struct processors online = {0};

	processors_online(&online);
	for (uint32_t cpu = 0; cpu < PROCESSORS_MAX; cpu++)
		if (processors_has(&online, cpu) && processors_is_first_thread(cpu))
			cpu_add(&throttle, cpu);
	*ret_throttle = throttle;
}

static const struct throttle_package *package_find(const struct throttle *throttle, int32_t id)
{
	for (uint32_t i = 0; i < throttle->count; i++)
		if (throttle->package[i].id == id)
			return &throttle->package[i];
	return NULL;
}

bool throttle_between(const struct throttle *from, const struct throttle *to, const char *list,
                      uint64_t ret_events[THROTTLE_KIND_COUNT])
{
	struct packages packages = {0};
	bool known = list[0] && packages_read(list, "", &packages) == 0;

	memset(ret_events, 0, THROTTLE_KIND_COUNT * sizeof(*ret_events));
	for (uint32_t i = 0; i < to->count; i++) {
		const struct throttle_package *end = &to->package[i], *start = package_find(from, end->id);
		struct package package = {0};

		if (!start || (known && (!packages_sum(&packages, end->id, -1, &package) || package.own == 0)))
			continue;
		for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++) {
			bool went_back = end->events[kind] < start->events[kind];

			ret_events[kind] += end->events[kind] - (went_back ? 0 : start->events[kind]);
		}
	}
	return from->count > 0 && to->count > 0;
}

json_t *throttle_to_json(const struct throttle *throttle)
{
	json_t *json = json_array();

	for (uint32_t i = 0; json && i < throttle->count; i++) {
		const struct throttle_package *package = &throttle->package[i];
		json_t *row = json_pack("[i]", package->id);

		for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
			json_array_append_new(row, json_integer((json_int_t)package->events[kind]));
		json_array_append_new(json, row);
	}
	return json;
}

int throttle_from_json(const json_t *json, struct throttle *ret_throttle)
{
	struct throttle throttle = {.count = (uint32_t)json_array_size(json)};

	if (!json_is_array(json) || json_array_size(json) > PACKAGES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < throttle.count; i++) {
		const json_t *row = json_array_get(json, i);

		if (json_array_size(row) != THROTTLE_KIND_COUNT + 1 || !json_is_integer(json_array_get(row, 0)))
			return -EINVAL;
		throttle.package[i].id = (int32_t)json_integer_value(json_array_get(row, 0));
		for (uint32_t kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
			if (!integer_of(json_array_get(row, kind + 1), INT64_MAX, &throttle.package[i].events[kind]))
				return -EINVAL;
	}
	*ret_throttle = throttle;
	return 0;
}
