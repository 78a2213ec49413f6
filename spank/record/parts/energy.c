#include "spank/record/parts/energy.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

#include <string.h>

#define DROPPED_SHOWN 16
#define GAPS_MAX      1000000

/* "package-1", and "package-1/dram" for a part of it. */
static json_t *zone_name(const struct energy_window *window, const struct energy_zone *zone)
{
	for (uint32_t i = 0; i < window->zone_count; i++)
		if (window->zone[i].kind == RAPL_PACKAGE && window->zone[i].instance == zone->instance &&
		    zone->kind != RAPL_PACKAGE)
			return json_sprintf("%s/%s", window->zone[i].name, zone->name);
	return json_string(zone->name);
}

/* The zones that were not whole at the window's end. */
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
			                    json_integer((json_int_t)window->kind_uj[kind]));
	json = json_pack("{s:s, s:I, s:o, s:o}", "source", window->source, "gaps", (json_int_t)window->gaps, "zones_uj",
	                 zones, "dropped", dropped_write(window));
	if (json && energy_share_uj(share, window, &own_uj))
		json_object_set_new(json, "own_uj", json_integer((json_int_t)own_uj));
	return json;
}

/* Zones as the kernel and we name them. */
static bool dropped_ok(const json_t *dropped)
{
	const json_t *zone;
	size_t i;

	if (dropped && (!json_is_array(dropped) || json_array_size(dropped) > RAPL_ZONES_MAX))
		return false;
	json_array_foreach((json_t *)dropped, i, zone)
	{
		const char *name = json_string_value(json_array_get(zone, 0));
		const char *why = json_string_value(json_array_get(zone, 1));

		if (!name || strlen(name) >= 2 * RAPL_NAME_MAX ||
		    !characters_ok(name, JSON_LETTERS JSON_DIGITS "._-/") || !why || strlen(why) >= 16 ||
		    !characters_ok(why, JSON_LOWER))
			return false;
	}
	return true;
}

static bool zones_read(json_t *zones, struct record_energy *ret_energy)
{
	const char *name;
	json_t *zone;
	uint64_t value;

	json_object_foreach(zones, name, zone)
	{
		int kind = rapl_kind_find(name);

		if (kind < 0 || !integer_of(zone, JSON_COUNT_MAX, &value))
			return false;
		ret_energy->has[kind] = true;
		ret_energy->zone_j[kind] = (double)value / 1e6;
		ret_energy->present = true;
	}
	return json_is_object(zones);
}

bool record_energy_read(const json_t *json, struct record_energy *ret_energy)
{
	const char *source = json_string_value(json_object_get(json, "source"));
	uint64_t gaps, own_uj = 0;

	if (!json || json_is_null(json))
		return true;
	if (!source || !integer_get(json, "gaps", GAPS_MAX, &gaps) ||
	    !zones_read(json_object_get(json, "zones_uj"), ret_energy))
		return false;
	ret_energy->gaps = (uint32_t)gaps;
	ret_energy->simulated = strcmp(source, "rapl") != 0;
	ret_energy->dropped = json_incref(json_object_get(json, "dropped"));
	ret_energy->has_own = json_object_get(json, "own_uj");
	if (!integer_maybe(json, "own_uj", JSON_COUNT_MAX, &own_uj))
		return false;
	ret_energy->own_j = (double)own_uj / 1e6;
	return dropped_ok(ret_energy->dropped);
}

void record_energy_free(struct record_energy *energy)
{
	json_decref(energy->dropped);
}

double record_energy_all_j(const struct record_energy *energy)
{
	double joules = 0;

	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (energy->has[kind] && energy_kind_counts(energy->has, (enum rapl_kind)kind))
			joules += energy->zone_j[kind];
	return joules;
}

double record_energy_own_j(const struct record_energy *energy, double share)
{
	return energy->has_own && share < 1 ? energy->own_j : share * record_energy_all_j(energy);
}

static void dropped_add(struct sum_energy *sum, const struct record_energy *from, const char *node)
{
	json_t *zone;
	size_t i;

	if (json_array_size(from->dropped) > 0 && !sum->dropped)
		sum->dropped = json_array();
	json_array_foreach(from->dropped, i, zone)
	{
		if (json_array_size(sum->dropped) < DROPPED_SHOWN)
			json_array_append_new(sum->dropped,
			                      json_pack("{s:s, s:O, s:O}", "node", node, "zone",
			                                json_array_get(zone, 0), "why", json_array_get(zone, 1)));
	}
}

void record_energy_add(struct sum_energy *sum, const struct record_energy *from, double share, const char *node)
{
	dropped_add(sum, from, node);
	if (!from->present || share < 0)
		return;
	sum->nodes++;
	sum->share |= share < 1;
	sum->simulated |= from->simulated;
	sum->gaps += from->gaps;
	sum->joules += record_energy_own_j(from, share);
	sum->node_joules += record_energy_all_j(from);
	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++) {
		sum->has[kind] |= from->has[kind];
		sum->zone_j[kind] += from->zone_j[kind];
	}
}

json_t *record_energy_print(const struct sum_energy *sum, size_t reported)
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
	json_object_set_new(json, "source", json_string(sum->simulated ? "simulated" : "rapl"));
	json_object_set_new(json, "zones_j", zones);
	if (sum->nodes < reported)
		json_object_set_new(json, "nodes", json_integer((json_int_t)sum->nodes));
	if (sum->gaps > 0)
		json_object_set_new(json, "gaps", json_integer((json_int_t)sum->gaps));
	if (sum->dropped)
		json_object_set(json, "dropped", sum->dropped);
	return json;
}
