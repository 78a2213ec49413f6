#include "spank/policy/key.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/json.h"
#include "spank/base/text.h"

const struct key *key_find(const struct key keys[], size_t count, const char *text, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(keys[i].name) == length && strncmp(keys[i].name, text, length) == 0)
			return &keys[i];
	return NULL;
}

/* As strtod with a decimal point, whatever locale the host process or another plugin has set. */
static double number_parse(const char *text, char **ret_end)
{
	locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
	double number;

	*ret_end = (char *)text;
	if (!plain)
		return 0;
	number = strtod_l(text, ret_end, plain);
	freelocale(plain);
	return number;
}

static int set_number(const struct key *key, double number, uint32_t *ret_number)
{
	if (!(number >= key->least) || number > key->most)
		return -EINVAL;
	*ret_number = (uint32_t)(number * key->scale + 0.5);
	return 0;
}

static int set_word(const struct key *key, const char *word, void *field)
{
	int index = text_find(key->accepted, '|', word), value = key->first + index;

	if (index < 0)
		return -EINVAL;
	if (key->size == sizeof(bool))
		*(bool *)field = value != 0;
	else
		memcpy(field, &value, sizeof(value));
	return 0;
}

static int set_text(const struct key *key, const char *text, char *field)
{
	if (key->kind == KEY_WORD)
		return set_word(key, text, field);
	if (!text[0] || strlen(text) >= key->size || (key->characters && !characters_ok(text, key->characters)) ||
	    (key->kind == KEY_PATH && text[0] != '/') || (key->kind == KEY_NAME && (text[0] < 'a' || text[0] > 'z')))
		return -EINVAL;
	strcpy(field, text);
	return 0;
}

int key_set(const struct key *key, const char *text, void *ret_struct)
{
	void *field = (char *)ret_struct + key->offset;
	const char *value = strchr(text, '=');
	double number;
	char *end;

	if ((key->kind == KEY_MARK) != !value)
		return -EINVAL;
	if (!value) {
		*(bool *)field = true;
		return 0;
	}
	value++;
	if (key->kind != KEY_NUMBER)
		return set_text(key, value, field);
	number = number_parse(value, &end);
	if (*end == '%')
		end++;
	if (*end || value[0] < '0' || value[0] > '9' || (key->characters && !characters_ok(value, key->characters)))
		return -EINVAL;
	return set_number(key, number, field);
}

int key_read(const struct key *key, const json_t *value, void *ret_struct, struct error *error)
{
	void *field = (char *)ret_struct + key->offset;
	bool good;

	if (key->kind == KEY_OTHER)
		return key->read ? key->read(value, key, field, error) : 0;
	if (key->kind == KEY_MARK) {
		good = json_is_boolean(value);
		*(bool *)field = json_is_true(value);
	} else if (key->kind == KEY_NUMBER) {
		good = json_is_number(value) && set_number(key, json_number_value(value), field) == 0;
	} else {
		good = json_is_string(value) && set_text(key, json_string_value(value), field) == 0;
	}
	if (good)
		return 0;
	return error_set(error, -EINVAL, "'%s' is not %s%s", key->name, key->kind == KEY_WORD ? "one of " : "",
	                 key->accepted);
}

const char *key_accepted(const struct key *key, char buffer[KEY_ACCEPTED_MAX])
{
	const char *between = key->kind == KEY_MARK ? ", " : "=";

	snprintf(buffer, KEY_ACCEPTED_MAX, "%s%s%s", key->name, between, key->accepted);
	return buffer;
}
