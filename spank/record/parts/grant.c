#include "spank/record/parts/grant.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

#include <stdio.h>
#include <string.h>

static json_t *refusals_json(const struct record_grant *grant)
{
	json_t *refused = json_object();

	for (size_t i = 0; i < grant->refusals; i++)
		json_object_set_new(refused, grant->refusal[i].why,
		                    whole_json(grant->refusal[i].cores, JSON_COUNT_MAX));
	return refused;
}

json_t *record_grant_write(const struct record_grant *grant)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o}", "mode", grant->mode, "cores",
	                 whole_json(grant->cores, JSON_COUNT_MAX), "refused", refusals_json(grant), "transitions",
	                 whole_json(grant->transitions, JSON_COUNT_MAX), "low_us",
	                 whole_json(grant->low_us, JSON_COUNT_MAX));
}

/* Returns true if the reason is short and has only the characters that our own reasons have. */
static bool why_ok(const char *why)
{
	return why[0] && strlen(why) < RECORD_GRANT_WHY_MAX && characters_ok(why, JSON_LETTERS JSON_DIGITS " '-=,.");
}

static struct record_refusal *refusal_find(struct record_grant *grant, const char *why)
{
	for (size_t i = 0; i < grant->refusals; i++)
		if (strcmp(grant->refusal[i].why, why) == 0)
			return &grant->refusal[i];
	if (grant->refusals == RECORD_GRANT_REFUSALS)
		return &grant->refusal[RECORD_GRANT_REFUSALS - 1];
	snprintf(grant->refusal[grant->refusals].why, RECORD_GRANT_WHY_MAX, "%s", why);
	return &grant->refusal[grant->refusals++];
}

void record_grant_add(struct record_grant *sum, const struct record_grant *from)
{
	if (!from->mode[0])
		return;
	memcpy(sum->mode, from->mode, sizeof(sum->mode));
	sum->cores += from->cores;
	sum->transitions += from->transitions;
	sum->low_us += from->low_us;
	for (size_t i = 0; i < from->refusals; i++)
		refusal_find(sum, from->refusal[i].why)->cores += from->refusal[i].cores;
}

bool record_grant_read(const json_t *json, struct record_grant *sum)
{
	json_t *refused = json_object_get(json, "refused"), *value;
	struct record_grant step = {.mode = ""};
	const char *why;
	uint64_t cores;

	if (!json || json_is_null(json))
		return true;
	if (!text_get(json, "mode", step.mode, sizeof(step.mode), JSON_LOWER) ||
	    (strcmp(step.mode, "lease") != 0 && strcmp(step.mode, "file") != 0) ||
	    !integer_get(json, "cores", JSON_COUNT_MAX, &step.cores) ||
	    !integer_get(json, "transitions", JSON_COUNT_MAX, &step.transitions) ||
	    !integer_get(json, "low_us", JSON_COUNT_MAX, &step.low_us) || !json_is_object(refused) ||
	    json_object_size(refused) > RECORD_GRANT_REFUSALS)
		return false;
	json_object_foreach(refused, why, value)
	{
		if (!why_ok(why) || !integer_of(value, JSON_COUNT_MAX, &cores))
			return false;
		refusal_find(&step, why)->cores += cores;
	}
	record_grant_add(sum, &step);
	return true;
}

json_t *record_grant_print(const struct record_grant *grant)
{
	json_t *json;

	if (!grant->mode[0])
		return NULL;
	json = json_pack("{s:s, s:I}", "mode", grant->mode, "cores", (json_int_t)grant->cores);
	object_set_some(json, "refused", refusals_json(grant));
	json_object_set_new(json, "transitions", json_integer((json_int_t)grant->transitions));
	json_object_set_new(json, "low_s", record_seconds_real((double)grant->low_us));
	return json;
}
