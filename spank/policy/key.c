#include "spank/policy/key.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/text.h"

const struct key *key_find(const struct key keys[], size_t count, const char *text)
{
	size_t length = strcspn(text, "=");

	for (size_t i = 0; i < count; i++)
		if (strlen(keys[i].name) == length && strncmp(keys[i].name, text, length) == 0)
			return &keys[i];
	return NULL;
}

/* As strtod, with a decimal point whatever locale the host process, or another plugin in it, has set. */
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

static int set_number(const struct key *key, const char *value, uint32_t *ret_number)
{
	char *end = NULL;
	double number;

	if (value[0] < '0' || value[0] > '9')
		return -EINVAL;
	number = number_parse(value, &end);
	if (*end == '%')
		end++;
	if (*end || !(number >= key->least) || number > key->most)
		return -EINVAL;
	*ret_number = (uint32_t)(number * key->scale + 0.5);
	return 0;
}

static int set_word(const struct key *key, const char *word, void *field)
{
	int place = text_find(key->accepted, '|', word), value = key->first + place;

	if (place < 0)
		return -EINVAL;
	if (key->size == sizeof(bool))
		*(bool *)field = value != 0;
	else
		memcpy(field, &value, sizeof(value));
	return 0;
}

int key_set(const struct key *key, const char *text, void *ret_struct)
{
	void *field = (char *)ret_struct + key->offset;
	const char *value = strchr(text, '=');

	if ((key->kind == KEY_MARK) != !value)
		return -EINVAL;
	if (!value) {
		*(bool *)field = true;
		return 0;
	}
	value++;
	if (key->characters && value[strspn(value, key->characters)])
		return -EINVAL;
	if (key->kind == KEY_WORD)
		return set_word(key, value, field);
	if (key->kind == KEY_NUMBER)
		return set_number(key, value, field);
	if (!value[0] || strlen(value) >= key->size || (key->kind == KEY_PATH && value[0] != '/'))
		return -EINVAL;
	strcpy(field, value);
	return 0;
}

const char *key_accepted(const struct key *key, char buffer[KEY_ACCEPTED_MAX])
{
	const char *between = key->kind == KEY_MARK ? ", " : "=";

	snprintf(buffer, KEY_ACCEPTED_MAX, "%s%s%s", key->name, between, key->accepted);
	return buffer;
}
