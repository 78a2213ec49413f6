/* The accumulator of accumulator.h as JSON, both ways. */
#include "spank/energy/accumulator.h"

#include <errno.h>
#include <string.h>

#define FORMAT_VERSION 1

/* Zones as rows: of 200 of them every second, names of fields would be most of the work. */
static json_t *zone_to_json(const struct energy_zone *zone)
{
	return json_pack("[s, s, I, I, I, I, I, i]", zone->name, rapl_kind_name(zone->kind), (json_int_t)zone->instance,
	                 (json_int_t)zone->counter_uj, (json_int_t)zone->total_uj, (json_int_t)zone->gaps,
	                 (json_int_t)zone->still_ns, (int)zone->problem);
}

json_t *energy_to_json(const struct energy_snapshot *snapshot)
{
	json_t *zones = json_array();

	for (uint32_t i = 0; i < snapshot->zone_count; i++)
		json_array_append_new(zones, zone_to_json(&snapshot->zone[i]));
	return json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:o}", "v", FORMAT_VERSION, "boot", snapshot->boot_id,
	                 "source", snapshot->source, "begun_ns", (json_int_t)snapshot->begun_ns, "at_ns",
	                 (json_int_t)snapshot->at_ns, "wrap_ns", (json_int_t)(snapshot->wrap_ns & INT64_MAX), "zones",
	                 zones);
}

/* 0.1 wrote objects, with neither still_ns nor problem. */
static int zone_from_json(json_t *json, struct energy_zone *ret_zone)
{
	const char *name, *kind;
	json_int_t instance, counter, total, gaps, still = 0;
	int kind_index, problem = ENERGY_FINE;

	if (json_unpack(json, "[s, s, I, I, I, I, I, i!]", &name, &kind, &instance, &counter, &total, &gaps, &still,
	                &problem) &&
	    json_unpack(json, "{s:s, s:s, s:I, s:I, s:I, s:I}", "name", &name, "kind", &kind, "instance", &instance,
	                "counter_uj", &counter, "total_uj", &total, "gaps", &gaps))
		return -EINVAL;
	kind_index = rapl_kind_find(kind);
	if (kind_index < 0 || strlen(name) >= RAPL_NAME_MAX || !rapl_name_is_plain(name) || instance < 0 ||
	    instance > INT32_MAX || counter < 0 || total < 0 || gaps < 0 || gaps > INT32_MAX || still < 0 ||
	    problem < 0 || problem >= ENERGY_PROBLEM_COUNT)
		return -EINVAL;
	*ret_zone = (struct energy_zone){
	        .kind = (enum rapl_kind)kind_index,
	        .instance = (uint32_t)instance,
	        .counter_uj = (uint64_t)counter,
	        .total_uj = (uint64_t)total,
	        .gaps = (uint32_t)gaps,
	        .still_ns = (uint64_t)still,
	        .problem = (enum energy_problem)problem,
	};
	strcpy(ret_zone->name, name);
	return 0;
}

int energy_from_json(const json_t *json, struct energy_snapshot *ret_snapshot)
{
	struct energy_snapshot snapshot = {0};
	const char *boot, *source;
	json_int_t begun, at, wrap;
	json_t *zones, *zone;
	int version;
	size_t i;

	if (json_unpack((json_t *)json, "{s:i, s:s, s:s, s:I, s:I, s:I, s:o}", "v", &version, "boot", &boot, "source",
	                &source, "begun_ns", &begun, "at_ns", &at, "wrap_ns", &wrap, "zones", &zones))
		return -EINVAL;
	if (version != FORMAT_VERSION || strlen(boot) >= sizeof(snapshot.boot_id) ||
	    strlen(source) >= sizeof(snapshot.source) || begun < 0 || at < 0 || wrap < 0 || !json_is_array(zones) ||
	    json_array_size(zones) > RAPL_ZONES_MAX)
		return -EINVAL;
	strcpy(snapshot.boot_id, boot);
	strcpy(snapshot.source, source);
	snapshot.begun_ns = (uint64_t)begun;
	snapshot.at_ns = (uint64_t)at;
	snapshot.wrap_ns = (uint64_t)wrap;
	json_array_foreach(zones, i,
	                   zone) if (zone_from_json(zone, &snapshot.zone[snapshot.zone_count++])) return -EINVAL;
	*ret_snapshot = snapshot;
	return 0;
}
