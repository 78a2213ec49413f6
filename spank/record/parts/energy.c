#include "spank/record/parts/energy.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

#include <string.h>

#define DROPPED_SHOWN   16
#define GAPS_MAX        1000000
#define NOT_COUNTED_MAX 16
#define UJ_MAX          INT64_MAX /* the accumulator's bound for a zone: 292 years at a kilowatt */

/* Returns the zone's name, "package-1"; a part of a package as "package-1/dram". */
static json_t *zone_name(const struct energy_window *window, const struct energy_zone *zone)
{
	for (uint32_t i = 0; i < window->zone_count; i++)
		if (window->zone[i].kind == RAPL_PACKAGE && window->zone[i].instance == zone->instance &&
		    zone->kind != RAPL_PACKAGE)
			return json_sprintf("%s/%s", window->zone[i].name, zone->name);
	return json_string(zone->name);
}

/* Returns [[zone, why], ...] for the zones that did not count at the window's end. */
static json_t *dropped_write(const struct energy_window *window)
{
	json_t *dropped = json_array();

	for (uint32_t i = 0; i < window->zone_count; i++) {
		const char *why = energy_problem_name(window->zone[i].problem);

		if (why)
			json_array_append_new(dropped, json_pack("[o, s]", zone_name(window, &window->zone[i]), why));
	}
	return dropped;
}

json_t *record_energy_write(const struct energy_window *window, const struct energy_share *share)
{
	uint64_t own_uj;
	json_t *zones = json_object(), *json;

	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (window->has[kind])
			json_object_set_new(zones, rapl_kind_name((enum rapl_kind)kind),
			                    whole_json(window->kind_uj[kind], UJ_MAX));
	json = json_pack("{s:s, s:o, s:o, s:o}", "source", window->source, "gaps", whole_json(window->gaps, GAPS_MAX),
	                 "zones_uj", zones, "dropped", dropped_write(window));
	if (json && window->mirrored > 0)
		json_object_set_new(json, "mirrored", json_integer((json_int_t)window->mirrored));
	if (json && energy_share_uj(share, window, &own_uj))
		json_object_set_new(json, "own_uj", whole_json(own_uj, UJ_MAX));
	return json;
}

void record_energy_lacks_gpus(json_t *json)
{
	json_object_set_new(json, "not_counted", json_pack("[s]", "gpus"));
}

/* Reads "not_counted". Passes over names that this release does not know: a newer one may add some. */
static bool not_counted_read(const json_t *json, struct record_energy *ret_energy)
{
	const json_t *part;
	size_t i;

	if (json && (!json_is_array(json) || json_array_size(json) > NOT_COUNTED_MAX))
		return false;
	json_array_foreach((json_t *)json, i, part)
	{
		if (!json_is_string(part))
			return false;
		ret_energy->lacks_gpus |= strcmp(json_string_value(part), "gpus") == 0;
	}
	return true;
}

/* Reads [[zone, why], ...]. */
static bool dropped_read(const json_t *json, const char *node, json_t *ret_dropped)
{
	char name[2 * RAPL_NAME_MAX], why[16];
	const json_t *zone;
	size_t i;

	if (json && (!json_is_array(json) || json_array_size(json) > RAPL_ZONES_MAX))
		return false;
	json_array_foreach((json_t *)json, i, zone)
	{
		if (!text_of(json_array_get(zone, 0), name, sizeof(name), JSON_LETTERS JSON_DIGITS "._-/") ||
		    !text_of(json_array_get(zone, 1), why, sizeof(why), JSON_LOWER))
			return false;
		json_array_append_new(ret_dropped,
		                      json_pack("{s:s, s:s, s:s}", "node", node, "zone", name, "why", why));
	}
	return true;
}

/* Reads {ZONE: uj}, by kind of zone. */
static bool zones_read(json_t *zones, struct record_energy *ret_energy)
{
	const char *name;
	json_t *zone;

	json_object_foreach(zones, name, zone)
	{
		int kind = rapl_kind_find(name);

		if (kind < 0 || !whole_of(zone, UJ_MAX, &ret_energy->zone_j[kind]))
			return false;
		ret_energy->has[kind] = ret_energy->present = true;
		ret_energy->zone_j[kind] /= 1e6;
	}
	return json_is_object(zones);
}

/* Returns false if no release reads that source from real counters: the energy is simulated. */
static bool source_read(const char *source, char ret_source[16])
{
	static const char *const known[] = {"rapl", "hwmon", "cray"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(source, known[i]) == 0) {
			strcpy(ret_source, source);
			return true;
		}
	return false;
}

bool record_energy_read(const json_t *json, double share, const char *node, struct record_energy *ret_energy)
{
	const char *source = json_string_value(json_object_get(json, "source"));
	const json_t *own = json_object_get(json, "own_uj"), *mirrored = json_object_get(json, "mirrored");
	double own_uj = 0;

	if (!json || json_is_null(json))
		return true;
	ret_energy->dropped = json_array();
	if (!source || !whole_of(json_object_get(json, "gaps"), GAPS_MAX, &ret_energy->gaps) ||
	    (mirrored && !whole_of(mirrored, RAPL_ZONES_MAX, &ret_energy->mirrored)) ||
	    !not_counted_read(json_object_get(json, "not_counted"), ret_energy) ||
	    !zones_read(json_object_get(json, "zones_uj"), ret_energy) || (own && !whole_of(own, UJ_MAX, &own_uj)) ||
	    !dropped_read(json_object_get(json, "dropped"), node, ret_energy->dropped))
		return false;
	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (ret_energy->has[kind] && energy_kind_counts(ret_energy->has, (enum rapl_kind)kind))
			ret_energy->node_joules += ret_energy->zone_j[kind];
	ret_energy->nodes = ret_energy->present && share >= 0;
	ret_energy->share = share < 1;
	ret_energy->simulated = !source_read(source, ret_energy->source);
	ret_energy->joules = own && share < 1 ? own_uj / 1e6 : share * ret_energy->node_joules;
	return true;
}

void record_energy_free(struct record_energy *energy)
{
	json_decref(energy->dropped);
}

/* Adds dropped zones to the job's list, while it has room. */
static void dropped_add(struct record_energy *sum, const struct record_energy *from)
{
	json_t *zone;
	size_t i;

	if (json_array_size(from->dropped) > 0 && !sum->dropped)
		sum->dropped = json_array();
	json_array_foreach(from->dropped, i, zone)
	{
		if (json_array_size(sum->dropped) < DROPPED_SHOWN)
			json_array_append(sum->dropped, zone);
	}
}

/* Sets the sum's source; "mixed" if nodes differ. */
static void source_add(struct record_energy *sum, const char *source)
{
	if (source[0] && sum->source[0] && strcmp(sum->source, source) != 0)
		strcpy(sum->source, "mixed");
	else if (source[0])
		snprintf(sum->source, sizeof(sum->source), "%s", source);
}

void record_energy_add(struct record_energy *sum, const struct record_energy *from)
{
	dropped_add(sum, from);
	sum->lacks_gpus |= from->lacks_gpus;
	if (from->nodes == 0)
		return;
	sum->nodes += from->nodes;
	sum->share |= from->share;
	sum->simulated |= from->simulated;
	source_add(sum, from->source);
	sum->gaps += from->gaps;
	sum->mirrored += from->mirrored;
	sum->joules += from->joules;
	sum->node_joules += from->node_joules;
	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++) {
		sum->has[kind] |= from->has[kind];
		sum->zone_j[kind] += from->zone_j[kind];
	}
}

json_t *record_energy_print(const struct record_energy *sum, size_t reported)
{
	json_t *zones, *json;

	if (sum->nodes == 0)
		return json_null();
	zones = json_object();
	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (sum->has[kind])
			json_object_set_new(zones, rapl_kind_name((enum rapl_kind)kind), number(sum->zone_j[kind], 1));
	json = json_pack("{s:o, s:s}", "joules", number(sum->joules, 1), "scope", sum->share ? "share" : "node");
	if (sum->share)
		json_object_set_new(json, "node_joules", number(sum->node_joules, 1));
	json_object_set_new(json, "source", json_string(sum->simulated ? "simulated" : sum->source));
	json_object_set_new(json, "zones_j", zones);
	if (sum->nodes < reported)
		json_object_set_new(json, "nodes", json_integer((json_int_t)sum->nodes));
	object_set_some(json, "gaps", json_integer((json_int_t)sum->gaps));
	if (sum->lacks_gpus)
		record_energy_lacks_gpus(json);
	object_set_some(json, "mirrored", json_integer((json_int_t)sum->mirrored));
	object_set_some(json, "dropped", json_incref(sum->dropped));
	return json;
}
