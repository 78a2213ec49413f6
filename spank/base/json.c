#include "spank/base/json.h"

#include <string.h>

bool characters_ok(const char *text, const char *accepted)
{
	return text[strspn(text, accepted)] == '\0';
}

bool integer_of(const json_t *value, int64_t most, uint64_t *ret_value)
{
	json_int_t number = json_integer_value(value);
	bool good = json_is_integer(value) && number >= 0 && number <= most;

	*ret_value = good ? (uint64_t)number : 0;
	return good;
}

bool integer_get(const json_t *object, const char *key, int64_t most, uint64_t *ret_value)
{
	return integer_of(json_object_get(object, key), most, ret_value);
}

bool integer_maybe(const json_t *object, const char *key, int64_t most, uint64_t *ret_value)
{
	return !json_object_get(object, key) || integer_get(object, key, most, ret_value);
}

void integer_add(uint64_t *sum, uint64_t value, int64_t most)
{
	*sum = value > (uint64_t)most - *sum ? (uint64_t)most : *sum + value;
}

bool rank_of(const json_t *value, int32_t *ret_value)
{
	uint64_t number;

	*ret_value = -1;
	if (json_is_integer(value) && json_integer_value(value) == -1)
		return true;
	if (!integer_of(value, INT32_MAX, &number))
		return false;
	*ret_value = (int32_t)number;
	return true;
}

bool integer32_get(const json_t *object, const char *key, uint32_t *ret_value)
{
	uint64_t value;
	bool good = integer_get(object, key, UINT32_MAX, &value);

	*ret_value = (uint32_t)value;
	return good;
}

bool number_of(const json_t *value, double limit, double *ret_value)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || !(number >= 0 && number < limit))
		return false;
	*ret_value = number;
	return true;
}

bool number_get(const json_t *object, const char *key, double limit, double *ret_value)
{
	return number_of(json_object_get(object, key), limit, ret_value);
}

bool text_of(const json_t *value, char *buffer, size_t size, const char *accepted)
{
	const char *text = json_string_value(value);

	if (!text || strlen(text) >= size || (accepted && !characters_ok(text, accepted)))
		return false;
	strcpy(buffer, text);
	return true;
}

bool text_get(const json_t *object, const char *key, char *buffer, size_t size, const char *accepted)
{
	return text_of(json_object_get(object, key), buffer, size, accepted);
}

bool text_maybe(const json_t *object, const char *key, char *buffer, size_t size, const char *accepted)
{
	return !json_object_get(object, key) || text_get(object, key, buffer, size, accepted);
}

void object_set_some(json_t *object, const char *key, json_t *value)
{
	if (json_number_value(value) != 0 || json_string_length(value) > 0 || json_object_size(value) > 0 ||
	    json_array_size(value) > 0)
		json_object_set(object, key, value);
	json_decref(value);
}
