#include "spank/record_grant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX 1000000000000000

static bool integer_get(const json_t *object, const char *key, uint64_t *ret_number)
{
	const json_t *value = json_object_get(object, key);
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value) || number < 0 || number > NUMBER_MAX)
		return false;
	*ret_number = (uint64_t)number;
	return true;
}

/* A few words of ours. */
static bool why_ok(const char *why)
{
	size_t length = strlen(why);

	return length > 0 && length < RECORD_GRANT_WHY_MAX &&
	       strspn(why, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 '-=,.") == length;
}

static bool mode_ok(const char *mode)
{
	return mode && (strcmp(mode, "lease") == 0 || strcmp(mode, "file") == 0);
}

bool record_grant_get(const json_t *step, struct record_grant *ret_grant)
{
	json_t *json = json_object_get(step, "grant"), *refused = json_object_get(json, "refused"), *cores;
	const char *mode = json_string_value(json_object_get(json, "mode")), *why;

	*ret_grant = (struct record_grant){.mode = ""};
	if (!json || json_is_null(json))
		return true;
	if (!mode_ok(mode) || !integer_get(json, "cores", &ret_grant->cores) ||
	    !integer_get(json, "transitions", &ret_grant->transitions) ||
	    !integer_get(json, "low_us", &ret_grant->low_us) || !json_is_object(refused) ||
	    json_object_size(refused) > RECORD_GRANT_REFUSALS)
		return false;
	snprintf(ret_grant->mode, sizeof(ret_grant->mode), "%s", mode);
	json_object_foreach(refused, why, cores)
	{
		struct record_refusal *refusal = &ret_grant->refusal[ret_grant->refusals++];

		if (!why_ok(why) || !integer_get(refused, why, &refusal->cores))
			return false;
		snprintf(refusal->why, sizeof(refusal->why), "%s", why);
	}
	return true;
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

json_t *record_grant_print(const struct record_grant *grant)
{
	json_t *refused, *json;

	if (!grant->mode[0])
		return NULL;
	json = json_pack("{s:s, s:I}", "mode", grant->mode, "cores", (json_int_t)grant->cores);
	refused = json_object();
	for (size_t i = 0; i < grant->refusals; i++)
		json_object_set_new(refused, grant->refusal[i].why, json_integer((json_int_t)grant->refusal[i].cores));
	if (grant->refusals > 0)
		json_object_set(json, "refused", refused);
	json_decref(refused);
	/* With the other mode it is the ranks who write, and only they know: see "wait". */
	if (strcmp(grant->mode, "lease") == 0) {
		json_object_set_new(json, "transitions", json_integer((json_int_t)grant->transitions));
		json_object_set_new(json, "low_s", json_real(round((double)grant->low_us / 1e3) / 1e3));
	}
	return json;
}
