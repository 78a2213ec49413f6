#include "spank/record_energy.h"

#include "spank/record_number.h"

#define DROPPED_SHOWN 16
#define EVENTS_MAX    1000000000000000LL

/* The zones that were not whole, with their nodes. */
static void dropped_print(json_t *energy, const struct record_node *const nodes[], size_t count)
{
	json_t *all = json_array(), *zone;
	size_t j;

	for (size_t i = 0; i < count; i++)
		json_array_foreach((json_t *)nodes[i]->energy.dropped, j,
		                   zone) if (json_array_size(all) < DROPPED_SHOWN)
		        json_array_append_new(all, json_pack("{s:s, s:O, s:O}", "node", nodes[i]->node, "zone",
		                                             json_array_get(zone, 0), "why", json_array_get(zone, 1)));
	if (json_array_size(all) > 0)
		json_object_set(energy, "dropped", all);
	json_decref(all);
}

json_t *record_energy_print(const struct sum *sum, const struct record_node *const nodes[], size_t count)
{
	json_t *zones, *json, *power;

	if (sum->energy_nodes == 0)
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
	if (sum->energy_nodes < count)
		json_object_set_new(json, "nodes", json_integer((json_int_t)sum->energy_nodes));
	if (sum->gaps > 0)
		json_object_set_new(json, "gaps", json_integer((json_int_t)sum->gaps));
	dropped_print(json, nodes, count);
	if (sum->power.parts.count > 0 && (power = record_power_print(&sum->power)))
		json_object_set_new(json, "power_w", power);
	return json;
}

bool record_throttle_get(const json_t *json, struct record_node *node)
{
	if (!json || json_is_null(json))
		return true;
	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++) {
		const json_t *value = json_object_get(json, throttle_kind_name((enum throttle_kind)kind));
		json_int_t events = json_integer_value(value);

		if (!json_is_integer(value) || events < 0 || events > EVENTS_MAX)
			return false;
		node->throttle[kind] = (uint64_t)events;
	}
	node->has_throttle = true;
	return true;
}

json_t *record_throttle_print(const struct sum *sum, const struct record_node *const nodes[])
{
	json_t *json = json_object();

	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
		json_object_set_new(json, throttle_kind_name((enum throttle_kind)kind), number(sum->throttle[kind], 0));
	if (sum->throttle_most_events > 0)
		json_object_set_new(json, "most", json_string(nodes[sum->throttle_most]->node));
	return json;
}
