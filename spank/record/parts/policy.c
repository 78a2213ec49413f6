#include "spank/record/parts/policy.h"

#include "spank/base/json.h"

#include <stdio.h>
#include <string.h>

#define WORDS   JSON_LOWER JSON_DIGITS "_-"
#define REASONS JSON_LETTERS JSON_DIGITS " ._-,:;()/+=%"

json_t *record_policy_write(const struct policy_use *use)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "asked", use->asked, "used", use->used, "why", use->why, "by",
	                 use->by);
}

bool record_reason_read(const json_t *object, const char *key, char *buffer, size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));
	size_t length;

	if (!text)
		return false;
	snprintf(buffer, size, "%s", text);
	while ((length = strspn(buffer, REASONS)) < strlen(buffer))
		buffer[length] = ' ';
	return true;
}

static bool name_ok(const char *name)
{
	return name[0] >= 'a' && name[0] <= 'z';
}

bool record_policy_read(const json_t *object, struct policy_use *ret_use)
{
	const json_t *policy = json_object_get(object, "policy");

	if (!text_get(policy, "asked", ret_use->asked, sizeof(ret_use->asked), WORDS) ||
	    !text_get(policy, "used", ret_use->used, sizeof(ret_use->used), WORDS) ||
	    !record_reason_read(policy, "why", ret_use->why, sizeof(ret_use->why)) ||
	    !text_get(policy, "by", ret_use->by, sizeof(ret_use->by), JSON_LOWER))
		return false;
	if (ret_use->by[0] && strcmp(ret_use->by, "job") != 0 && strcmp(ret_use->by, "step") != 0 &&
	    strcmp(ret_use->by, "program") != 0 && strcmp(ret_use->by, "site") != 0)
		return false;
	return !ret_use->asked[0] || (name_ok(ret_use->asked) && name_ok(ret_use->used));
}

json_t *record_policy_print(const struct policy_use *use)
{
	json_t *json = json_pack("{s:s, s:s}", "asked", use->asked, "used", use->used);

	object_set_some(json, "why", json_string(use->why));
	object_set_some(json, "by", json_string(use->by));
	return json;
}
