#include "spank/record/parts/meters.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

#include <string.h>

#define POWERCAP METER_SOURCE_COUNT
#define UJ_MAX   INT64_MAX

static const char *source_name(int source)
{
	return source == POWERCAP ? "powercap" : meter_source_name((enum meter_source)source);
}

/* GPUs are counted one by one, in gpus.h. */
static bool is_of_nodes(int source)
{
	return source == POWERCAP || !meter_source_is_of_devices((enum meter_source)source);
}

/* Microjoules by source and scope. */
struct sums {
	bool has[RECORD_SOURCES][METER_SCOPE_COUNT];
	uint64_t uj[RECORD_SOURCES][METER_SCOPE_COUNT];
};

/* Adds to the sum of a source and scope, at most up to UJ_MAX. Such a sum has a figure from then on, be it 0. */
static void sum_add(struct sums *sums, int source, enum meter_scope scope, uint64_t uj)
{
	sums->has[source][scope] = true;
	integer_add(&sums->uj[source][scope], uj, UJ_MAX);
}

static void powercap_add(struct sums *sums, const struct energy_window *powercap)
{
	static const struct {
		enum rapl_kind kind;
		enum meter_scope scope;
	} kinds[] = {{RAPL_PACKAGE, METER_CPU}, {RAPL_DRAM, METER_MEMORY}, {RAPL_PSYS, METER_NODE}};

	for (size_t i = 0; powercap && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (powercap->has[kinds[i].kind])
			sum_add(sums, POWERCAP, kinds[i].scope, powercap->kind_uj[kinds[i].kind]);
}

/* Returns {SOURCE: {SCOPE: uj, ...}, ...} with the sums that have a figure, or NULL if none has. */
static json_t *sums_to_json(const struct sums *sums)
{
	json_t *json = json_object();

	for (int source = 0; source < RECORD_SOURCES; source++) {
		json_t *scopes = json_object();

		for (int scope = 0; scope < METER_SCOPE_COUNT; scope++)
			if (sums->has[source][scope])
				json_object_set_new(scopes, meter_scope_name((enum meter_scope)scope),
				                    whole_json(sums->uj[source][scope], UJ_MAX));
		object_set_some(json, source_name(source), scopes);
	}
	if (json_object_size(json) > 0)
		return json;
	json_decref(json);
	return NULL;
}

json_t *record_meters_write(const struct meters *from, const struct meters *to, const struct energy_window *powercap)
{
	struct sums sums = {.has = {{false}}};
	bool lost[RECORD_SOURCES][METER_SCOPE_COUNT] = {{false}};

	for (uint32_t i = 0; i < from->count; i++) {
		const struct meter *meter = &from->meter[i], *later = meter_later(meter, to);

		if (meter_is_device(meter))
			continue;
		sum_add(&sums, (int)meter->source, meter->scope, later ? later->energy_uj - meter->energy_uj : 0);
		lost[meter->source][meter->scope] |= !later;
	}
	powercap_add(&sums, powercap);
	for (int source = 0; source < RECORD_SOURCES; source++)
		for (int scope = 0; scope < METER_SCOPE_COUNT; scope++)
			sums.has[source][scope] &= !lost[source][scope];
	return sums_to_json(&sums);
}

static bool source_read(const json_t *scopes, int source, struct record_meters *meters)
{
	size_t known = 0;

	for (int scope = 0; scope < METER_SCOPE_COUNT; scope++) {
		const json_t *value = json_object_get(scopes, meter_scope_name((enum meter_scope)scope));
		double uj;

		if (value && !whole_of(value, UJ_MAX, &uj))
			return false;
		if (value)
			meters->joules[source][scope] = uj / 1e6;
		meters->nodes[source][scope] = value != NULL;
		known += value != NULL;
	}
	return json_is_object(scopes) && json_object_size(scopes) == known;
}

bool record_meters_read(const json_t *json, struct record_meters *ret_meters)
{
	size_t known = 0;

	if (!json)
		return true;
	for (int source = 0; source < RECORD_SOURCES; source++) {
		const json_t *scopes = is_of_nodes(source) ? json_object_get(json, source_name(source)) : NULL;

		if (scopes && !source_read(scopes, source, ret_meters))
			return false;
		known += scopes != NULL;
	}
	return json_is_object(json) && json_object_size(json) == known;
}

void record_meters_add(struct record_meters *sum, const struct record_meters *from)
{
	for (int source = 0; source < RECORD_SOURCES; source++)
		for (int scope = 0; scope < METER_SCOPE_COUNT; scope++) {
			sum->nodes[source][scope] += from->nodes[source][scope];
			sum->joules[source][scope] += from->joules[source][scope];
		}
}

json_t *record_meters_print(const struct record_meters *sum)
{
	json_t *list = json_array();

	for (int source = 0; source < RECORD_SOURCES; source++)
		for (int scope = 0; scope < METER_SCOPE_COUNT; scope++)
			if (sum->nodes[source][scope] > 0)
				json_array_append_new(list,
				                      json_pack("{s:s, s:s, s:o, s:I}", "source", source_name(source),
				                                "scope", meter_scope_name((enum meter_scope)scope),
				                                "joules", number(sum->joules[source][scope], 1),
				                                "nodes", (json_int_t)sum->nodes[source][scope]));
	return list;
}
