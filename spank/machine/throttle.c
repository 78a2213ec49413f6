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
		if (!package) {
			package = package_of(throttle, processors_package(cpu));
			if (!package)
				return;
			package->cores++;
		}
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

/* Adds a package's events between two readings. Returns false if they cannot be told. */
static bool package_add(const struct throttle_package *start, const struct throttle_package *end,
                        uint64_t events[THROTTLE_KIND_COUNT])
{
	if (!start || start->cores != end->cores)
		return false;
	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++) {
		if (end->events[kind] < start->events[kind])
			return false;
		events[kind] += end->events[kind] - start->events[kind];
	}
	return true;
}

bool throttle_between(const struct throttle *from, const struct throttle *to, const char *list,
                      uint64_t ret_events[THROTTLE_KIND_COUNT])
{
	struct packages packages = {0};
	uint64_t events[THROTTLE_KIND_COUNT] = {0};

	if (from->count == 0 || from->count != to->count || (list[0] && packages_read(list, "", &packages)))
		return false;
	for (uint32_t i = 0; i < to->count; i++) {
		const struct throttle_package *end = &to->package[i];
		struct package package = {0};

		if (list[0] && (!packages_sum(&packages, end->id, -1, &package) || package.own == 0))
			continue;
		if (!package_add(package_find(from, end->id), end, events))
			return false;
	}
	memcpy(ret_events, events, sizeof(events));
	return true;
}

json_t *throttle_to_json(const struct throttle *throttle)
{
	json_t *json = json_array();

	for (uint32_t i = 0; json && i < throttle->count; i++) {
		const struct throttle_package *package = &throttle->package[i];
		json_t *row = json_pack("[ii]", package->id, (int)package->cores);

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
		struct throttle_package *package = &throttle.package[i];
		uint64_t cores;

		if (json_array_size(row) != THROTTLE_KIND_COUNT + 2 || !json_is_integer(json_array_get(row, 0)) ||
		    !integer_of(json_array_get(row, 1), PROCESSORS_MAX, &cores))
			return -EINVAL;
		package->id = (int32_t)json_integer_value(json_array_get(row, 0));
		package->cores = (uint32_t)cores;
		for (uint32_t kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
			if (!integer_of(json_array_get(row, kind + 2), INT64_MAX, &package->events[kind]))
				return -EINVAL;
	}
	*ret_throttle = throttle;
	return 0;
}
