#include "spank/node_window.h"

/* "package-1", and "package-1/dram" for a part of it. */
static json_t *zone_name(const struct energy_window *window, const struct energy_window_zone *zone)
{
	for (uint32_t i = 0; i < window->zone_count; i++)
		if (window->zone[i].kind == RAPL_PACKAGE && window->zone[i].instance == zone->instance &&
		    zone->kind != RAPL_PACKAGE)
			return json_sprintf("%s/%s", window->zone[i].name, zone->name);
	return json_string(zone->name);
}

/* [[zone, why], ...] of the zones that were not whole at the window's end. */
static json_t *dropped_to_json(const struct energy_window *window)
{
	json_t *dropped = json_array();

	for (uint32_t i = 0; i < window->zone_count; i++) {
		const char *why = energy_problem_name(window->zone[i].problem);

		if (why)
			json_array_append_new(dropped, json_pack("[o, s]", zone_name(window, &window->zone[i]), why));
	}
	return dropped;
}

json_t *node_window_to_json(const struct energy_window *window, const struct energy_share *share)
{
	uint64_t own_uj;
	json_t *zones = json_object(), *json;

	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (window->has[kind])
			json_object_set_new(zones, rapl_kind_name((enum rapl_kind)kind),
			                    json_integer((json_int_t)window->kind_uj[kind]));
	json = json_pack("{s:s, s:I, s:o, s:o}", "source", window->source, "gaps", (json_int_t)window->gaps, "zones_uj",
	                 zones, "dropped", dropped_to_json(window));
	if (json && energy_share_uj(share, window, &own_uj))
		json_object_set_new(json, "own_uj", json_integer((json_int_t)own_uj));
	return json;
}
