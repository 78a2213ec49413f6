/* The accumulator of energy.h as JSON, both ways. */
#include "spank/energy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spank/cleanup.h"
#include "spank/memory.h"

#define FORMAT_VERSION 1

struct text {
	char *start, *at, *end;
};

static void put(struct text *text, const char *bytes)
{
	size_t length = strlen(bytes), room = (size_t)(text->end - text->at);

	if (length > room)
		length = room;
	memcpy(text->at, bytes, length);
	text->at += length;
}

static void put_number(struct text *text, const char *before, uint64_t number)
{
	char digits[24], *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	put(text, before);
	put(text, at);
}

static void put_zone(struct text *text, const struct energy_zone *zone, bool first)
{
	put(text, first ? "[\"" : ",[\"");
	put(text, zone->name);
	put(text, "\",\"");
	put(text, rapl_kind_name(zone->kind));
	put_number(text, "\",", zone->instance);
	put_number(text, ",", zone->counter_uj);
	put_number(text, ",", zone->total_uj);
	put_number(text, ",", zone->gaps);
	put_number(text, ",", zone->still_ns);
	put_number(text, ",", zone->problem);
	put(text, "]");
}

/*
 * By hand, and zones as rows: of 200 of them every second, trees of JSON and names of fields would be most of the work.
 */
char *energy_to_text(const struct energy_snapshot *snapshot)
{
	struct text text = {.start = malloc(ENERGY_FILE_MAX)};

	if (!text.start)
		return NULL;
	text.at = text.start;
	text.end = text.start + ENERGY_FILE_MAX - 1;
	put_number(&text, "{\"v\":", FORMAT_VERSION);
	put(&text, ",\"boot\":\"");
	put(&text, snapshot->boot_id);
	put(&text, "\",\"source\":\"");
	put(&text, snapshot->source);
	put_number(&text, "\",\"begun_ns\":", snapshot->begun_ns);
	put_number(&text, ",\"at_ns\":", snapshot->at_ns);
	put_number(&text, ",\"wrap_ns\":", snapshot->wrap_ns & INT64_MAX);
	put(&text, ",\"zones\":[");
	for (uint32_t i = 0; i < snapshot->zone_count; i++)
		put_zone(&text, &snapshot->zone[i], i == 0);
	put(&text, "]}");
	*text.at = '\0';
	return text.start;
}

json_t *energy_to_json(const struct energy_snapshot *snapshot)
{
	cleanup_free char *text = energy_to_text(snapshot);

	return text ? memory_json(text, strlen(text), 0) : NULL;
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
