#include "spank/record/parts/throttle.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

static const char *name_of(int kind)
{
	return throttle_kind_name((enum throttle_kind)kind);
}

json_t *record_throttle_write(const struct record_throttle *throttle)
{
	json_t *json = throttle->known ? json_object() : json_null();

	for (int kind = 0; throttle->known && kind < THROTTLE_KIND_COUNT; kind++)
		json_object_set_new(json, name_of(kind), json_integer((json_int_t)throttle->events[kind]));
	return json;
}

bool record_throttle_read(const json_t *json, struct record_throttle *ret_throttle)
{
	if (!json || json_is_null(json))
		return true;
	for (int kind = 0; kind < THROTTLE_KIND_COUNT; kind++)
		if (!integer_get(json, name_of(kind), JSON_COUNT_MAX, &ret_throttle->events[kind]))
			return false;
	ret_throttle->known = true;
	return true;
}

double record_throttle_events(const struct record_throttle *throttle)
{
	double events = 0;

	for (int kind = 0; throttle->known && kind < THROTTLE_KIND_COUNT; kind++)
		events += (double)throttle->events[kind];
	return events;
}

void record_throttle_add(struct sum_throttle *sum, const struct record_throttle *from, const char *node)
{
	double events = record_throttle_events(from);

	sum->nodes += from->known;
	for (int kind = 0; from->known && kind < THROTTLE_KIND_COUNT; kind++)
		sum->events[kind] += (double)from->events[kind];
	if (events > sum->most_events) {
		sum->most_events = events;
		sum->most = node;
	}
}

json_t *record_throttle_print(const struct sum_throttle *sum)
{
	json_t *json = sum->nodes > 0 ? json_object() : NULL;

	for (int kind = 0; json && kind < THROTTLE_KIND_COUNT; kind++)
		json_object_set_new(json, name_of(kind), number(sum->events[kind], 0));
	if (json && sum->most)
		json_object_set_new(json, "most", json_string(sum->most));
	return json;
}
