#include "spank/record/parts/throttle.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

static const char *name_of(int kind)
{
	return throttle_kind_name((enum throttle_kind)kind);
}

static json_t *events_json(const struct record_throttle *throttle)
{
	json_t *json = json_object();

	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
		json_object_set_new(json, name_of(kind), number((double)throttle->events[kind], 0));
	return json;
}

json_t *record_throttle_write(const struct record_throttle *throttle)
{
	json_t *json = throttle->known ? json_object() : json_null();

	for (int kind = 0; throttle->known && kind < THROTTLE_KIND_COUNT; kind++)
		json_object_set_new(json, name_of(kind), whole_json(throttle->events[kind], JSON_COUNT_MAX));
	return json;
}

bool record_throttle_read(const json_t *json, const char *node, struct record_throttle *ret_throttle)
{
	if (!json || json_is_null(json))
		return true;
	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++) {
		if (!integer_get(json, name_of(kind), JSON_COUNT_MAX, &ret_throttle->events[kind]))
			return false;
		ret_throttle->most_events += (double)ret_throttle->events[kind];
	}
	ret_throttle->known = true;
	ret_throttle->most = ret_throttle->most_events > 0 ? node : NULL;
	return true;
}

void record_throttle_add(struct record_throttle *sum, const struct record_throttle *from)
{
	sum->known |= from->known;
	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
		integer_add(&sum->events[kind], from->events[kind], INT64_MAX);
	if (from->most_events > sum->most_events) {
		sum->most_events = from->most_events;
		sum->most = from->most;
	}
}

json_t *record_throttle_print(const struct record_throttle *sum)
{
	json_t *json = sum->known ? events_json(sum) : NULL;

	object_set_some(json, "most", json_string(sum->most));
	return json;
}
