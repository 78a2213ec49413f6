#include "spank/record/run.h"

bool run_read(const json_t *json, struct job_run *ret_run)
{
	const json_t *start = json_object_get(json, "start_s"), *end = json_object_get(json, "end_s");
	const json_t *count = json_object_get(json, "restart_count");

	if (!json_is_number(start) || !json_is_number(end) || !json_is_integer(count))
		return false;
	ret_run->start_s = json_number_value(start);
	ret_run->end_s = json_number_value(end);
	ret_run->timeless = json_is_true(json_object_get(json, "timeless"));
	ret_run->known = json_is_true(json_object_get(json, "restart_known"));
	ret_run->count = (uint32_t)json_integer_value(count);
	return true;
}

json_t *run_to_json(const struct job_run *run)
{
	return json_pack("{s:f, s:f, s:b, s:I}", "start_s", run->start_s, "end_s", run->end_s, "restart_known",
	                 (int)run->known, "restart_count", (json_int_t)run->count);
}

bool run_is_same(const struct job_run *a, const struct job_run *b)
{
	if (a->known && b->known && a->count == b->count)
		return true;
	return a->timeless || b->timeless || (a->start_s <= b->end_s && b->start_s <= a->end_s);
}
