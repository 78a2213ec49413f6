#include "spank/energy/meters.h"

#include "spank/base/json.h"
#include "spank/base/text.h"

#include <errno.h>
#include <string.h>

static const char *const source_names[METER_SOURCE_COUNT] = {[METER_NVML] = "nvml",
                                                             [METER_CRAY] = "cray",
                                                             [METER_HWMON] = "hwmon",
                                                             [METER_RSMI] = "rsmi",
                                                             [METER_INTEL] = "intel"};
static const char *const scope_names[METER_SCOPE_COUNT] = {
        [METER_GPU] = "gpu", [METER_NODE] = "node", [METER_CPU] = "cpu", [METER_MEMORY] = "memory"};

const char *meter_source_name(enum meter_source source)
{
	return source_names[source];
}

const char *meter_scope_name(enum meter_scope scope)
{
	return scope_names[scope];
}

bool meter_source_is_of_devices(enum meter_source source)
{
	return source == METER_NVML || source == METER_RSMI || source == METER_INTEL;
}

bool meter_is_device(const struct meter *meter)
{
	return meter->scope == METER_GPU && meter_source_is_of_devices(meter->source);
}

static int name_find(const char *const names[], int count, const char *name)
{
	for (int i = 0; name && i < count; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

/* Returns true if *later can be a later reading of the same meter. */
static bool advanced(const struct meter *meter, const struct meter *later)
{
	if (meter->source == METER_INTEL)
		return later->energy_uj > meter->energy_uj && later->mark == meter->mark;
	return later->energy_uj >= meter->energy_uj && (!later->mark || later->mark > meter->mark);
}

const struct meter *meter_later(const struct meter *meter, const struct meters *to)
{
	for (uint32_t i = 0; i < to->count; i++) {
		const struct meter *later = &to->meter[i];

		if (later->source == meter->source && later->scope == meter->scope && later->number == meter->number &&
		    strcmp(later->name, meter->name) == 0)
			return advanced(meter, later) ? later : NULL;
	}
	return NULL;
}

bool meter_source_is_wanted(const char *sources, enum meter_source source)
{
	return !sources[0] || text_find(sources, '+', source_names[source]) >= 0;
}

/* Adds a zone to the window for a meter: its advance, or a gap if `later` is NULL (meter_later). */
static void zone_add(const struct meter *meter, const struct meter *later, struct energy_window *window)
{
	static const enum rapl_kind kinds[METER_SCOPE_COUNT] = {
	        [METER_NODE] = RAPL_PSYS, [METER_CPU] = RAPL_PACKAGE, [METER_MEMORY] = RAPL_DRAM};
	struct energy_zone *zone = &window->zone[window->zone_count++];

	*zone = (struct energy_zone){.kind = kinds[meter->scope],
	                             .instance = meter->number,
	                             .used_uj = later ? later->energy_uj - meter->energy_uj : 0,
	                             .gaps = later ? 0 : 1,
	                             .problem = later ? ENERGY_FINE : ENERGY_STOPPED};
	if (zone->kind == RAPL_PACKAGE)
		snprintf(zone->name, sizeof(zone->name), "package-%u", meter->number);
	else
		snprintf(zone->name, sizeof(zone->name), "%s", rapl_kind_name(zone->kind));
	window->has[zone->kind] = true;
	integer_add(&window->kind_uj[zone->kind], zone->used_uj, INT64_MAX);
	window->gaps |= zone->gaps;
}

/*
 * Returns true if the meter counts toward the host's energy. A board's own counter includes its parts, which are not
 * added.
 */
static bool is_of_host(const struct meter *meter)
{
	return meter->source == METER_CRAY ? meter->scope == METER_NODE : meter->scope != METER_GPU;
}

bool meters_window(const struct meters *from, const struct meters *to, enum meter_source source,
                   struct energy_window *ret_window)
{
	memset(ret_window, 0, sizeof(*ret_window));
	snprintf(ret_window->source, sizeof(ret_window->source), "%s", source_names[source]);
	for (uint32_t i = 0; i < from->count; i++)
		if (from->meter[i].source == source && is_of_host(&from->meter[i]))
			zone_add(&from->meter[i], meter_later(&from->meter[i], to), ret_window);
	return ret_window->zone_count > 0;
}

static json_t *meter_to_json(const struct meter *meter)
{
	json_t *json = json_pack("[s, s, I, b, s, I, I]", source_names[meter->source], scope_names[meter->scope],
	                         (json_int_t)meter->number, (int)meter->is_split, meter->name,
	                         (json_int_t)meter->energy_uj, (json_int_t)meter->mark);

	if (meter_is_device(meter) && meter->place != meter->number)
		json_array_append_new(json, json_integer(meter->place));
	return json;
}

json_t *meters_to_json(const struct meters *meters)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < meters->count; i++)
		json_array_append_new(list, meter_to_json(&meters->meter[i]));
	return json_pack("{s:s, s:o}", "why", meters->why, "meters", list);
}

json_t *meters_to_json_some(const struct meters *meters)
{
	return meters->count > 0 || meters->why[0] ? meters_to_json(meters) : NULL;
}

static bool meter_from_json(const json_t *json, struct meter *ret_meter)
{
	int source = name_find(source_names, METER_SOURCE_COUNT, json_string_value(json_array_get(json, 0)));
	int scope = name_find(scope_names, METER_SCOPE_COUNT, json_string_value(json_array_get(json, 1)));
	size_t size = json_array_size(json);
	uint64_t number, place;

	if ((size != 7 && size != 8) || source < 0 || scope < 0 ||
	    !integer_of(json_array_get(json, 2), METER_NUMBER_MAX, &number) ||
	    !json_is_boolean(json_array_get(json, 3)) ||
	    !text_of(json_array_get(json, 4), ret_meter->name, sizeof(ret_meter->name), JSON_PLAIN) ||
	    !integer_of(json_array_get(json, 5), INT64_MAX, &ret_meter->energy_uj) ||
	    !integer_of(json_array_get(json, 6), INT64_MAX, &ret_meter->mark) ||
	    !integer_of(json_array_get(json, size == 8 ? 7 : 2), METER_NUMBER_MAX, &place))
		return false;
	ret_meter->source = (enum meter_source)source;
	ret_meter->scope = (enum meter_scope)scope;
	ret_meter->number = (uint32_t)number;
	ret_meter->place = (uint32_t)place;
	ret_meter->is_split = json_is_true(json_array_get(json, 3));
	return true;
}

int meters_from_json(const json_t *json, struct meters *ret_meters)
{
	const json_t *list = json_object_get(json, "meters");
	struct meters meters = {.count = 0};

	if (!json_is_array(list) || json_array_size(list) > METERS_MAX ||
	    !text_get(json, "why", meters.why, sizeof(meters.why), JSON_PLAIN))
		return -EINVAL;
	for (; meters.count < json_array_size(list); meters.count++)
		if (!meter_from_json(json_array_get(list, meters.count), &meters.meter[meters.count]))
			return -EINVAL;
	*ret_meters = meters;
	return 0;
}
