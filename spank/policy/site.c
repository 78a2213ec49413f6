/* The arguments of our line in plugstack.conf: one table row per argument. */
#include "spank/policy/site.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/json.h"

struct word {
	const char *word;
	int value;
};

static const struct word yes_no[] = {{"no", 0}, {"yes", 1}, {NULL, 0}};
static const struct word off_on[] = {{"off", 0}, {"on", 1}, {NULL, 0}};
static const struct word pins[] = {{"cores", SITE_PIN_CORES}, {"none", SITE_PIN_NONE}, {NULL, 0}};
static const struct word threads[] = {
        {"keep", SITE_THREADS_KEEP}, {"bounded", SITE_THREADS_BOUNDED}, {"passive", SITE_THREADS_PASSIVE}, {NULL, 0}};
static const struct word grants[] = {
        {"lease", SITE_GRANT_LEASE}, {"file", SITE_GRANT_FILE}, {"off", SITE_GRANT_OFF}, {NULL, 0}};
static const struct word governors[] = {
        {"keep", SITE_GOVERNOR_KEEP}, {"userspace", SITE_GOVERNOR_USERSPACE}, {NULL, 0}};
static const struct word writers[] = {{"node", SITE_WRITER_NODE}, {"sweep", SITE_WRITER_SWEEP}, {NULL, 0}};
static const struct word sinks[] = {{"slurmdbd", SITE_SINK_SLURMDBD}, {"file", SITE_SINK_FILE}, {NULL, 0}};
static const struct word fields[] = {{"admin_comment", SITE_FIELD_ADMIN_COMMENT},
                                     {"system_comment", SITE_FIELD_SYSTEM_COMMENT},
                                     {"extra", SITE_FIELD_EXTRA},
                                     {NULL, 0}};
static const struct word records[] = {{"policy", SITE_RECORD_POLICY},
                                      {"all", SITE_RECORD_ALL},
                                      {"mpi", SITE_RECORD_MPI},
                                      {"none", SITE_RECORD_NONE},
                                      {NULL, 0}};

enum kind { KIND_NAME, KIND_NAMES, KIND_PATH, KIND_USER, KIND_WORD, KIND_FLAG, KIND_NUMBER };

struct argument {
	const char *key;
	enum kind kind;
	size_t offset;
	size_t size;
	const struct word *words;
};

#define FIELD(member) offsetof(struct site, member), sizeof(((struct site *)NULL)->member)

static const struct argument arguments_known[] = {
        {"default", KIND_NAME, FIELD(default_policy), NULL},
        {"allow", KIND_NAMES, FIELD(allow), NULL},
        {"enforce", KIND_FLAG, FIELD(enforce), yes_no},
        {"policies", KIND_PATH, FIELD(policies), NULL},
        {"pin", KIND_WORD, FIELD(pin), pins},
        {"threads", KIND_WORD, FIELD(threads), threads},
        {"grant", KIND_WORD, FIELD(grant), grants},
        {"governor", KIND_WORD, FIELD(governor), governors},
        {"min_khz", KIND_NUMBER, FIELD(min_khz), NULL},
        {"spool", KIND_PATH, FIELD(spool), NULL},
        {"spool_user", KIND_USER, FIELD(spool_user), NULL},
        {"writer", KIND_WORD, FIELD(writer), writers},
        {"sink", KIND_WORD, FIELD(sink), sinks},
        {"field", KIND_WORD, FIELD(field), fields},
        {"record", KIND_WORD, FIELD(record), records},
        {"record_min_s", KIND_NUMBER, FIELD(record_min_s), NULL},
        {"energy_tres", KIND_FLAG, FIELD(energy_tres), off_on},
};

#define ARGUMENT_COUNT (sizeof(arguments_known) / sizeof(arguments_known[0]))

static int set_text(void *field, size_t size, const char *value, bool valid)
{
	size_t length = strlen(value);

	if (!valid || length >= size)
		return -EINVAL;
	memcpy(field, value, length + 1);
	return 0;
}

static int set_word(const struct argument *argument, void *field, const char *value)
{
	for (const struct word *word = argument->words; word->word; word++) {
		if (strcmp(word->word, value) != 0)
			continue;
		if (argument->kind == KIND_FLAG)
			*(bool *)field = word->value != 0;
		else
			memcpy(field, &word->value, argument->size);
		return 0;
	}
	return -EINVAL;
}

static int set_number(void *field, const char *value)
{
	char *end = NULL;
	unsigned long long number;

	if (value[0] < '0' || value[0] > '9' || strlen(value) > 10)
		return -EINVAL;
	number = strtoull(value, &end, 10);
	if (*end || number > UINT32_MAX)
		return -EINVAL;
	*(uint32_t *)field = (uint32_t)number;
	return 0;
}

static int set_field(const struct argument *argument, struct site *site, const char *value)
{
	void *field = (char *)site + argument->offset;

	switch (argument->kind) {
	case KIND_NAME:
		return set_text(field, argument->size, value,
		                value[0] && characters_ok(value, JSON_LOWER JSON_DIGITS "_-"));
	case KIND_NAMES:
		return set_text(field, argument->size, value,
		                value[0] && characters_ok(value, JSON_LOWER JSON_DIGITS "_-,"));
	case KIND_PATH:
		return set_text(field, argument->size, value, value[0] == '/');
	case KIND_USER:
		return set_text(field, argument->size, value,
		                value[0] && characters_ok(value, JSON_LOWER JSON_DIGITS "_-."));
	case KIND_NUMBER:
		return set_number(field, value);
	default:
		return set_word(argument, field, value);
	}
}

/* What there was once, and what serves instead. */
static const char *gone(const char *text)
{
	return strcmp(text, "grant=fd") == 0 ? "; fd is no more: grant=lease serves the same ranks, and mpirun's too"
	                                     : "";
}

/* The accepted values of an argument, for a message. */
static const char *describe(const struct argument *argument, char *buffer, size_t size)
{
	static const char *const kinds[] = {
	        "a policy's name", "policies' names with commas", "an absolute path", "a user's name", "", "",
	        "a whole number"};
	size_t used = 0;

	if (!argument->words)
		return kinds[argument->kind];
	for (const struct word *word = argument->words; word->word && used < size; word++)
		used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? "|" : "", word->word);
	return buffer;
}

static int parse_one(const char *text, struct site *site, char *problem, size_t size)
{
	const char *equals = strchr(text, '=');
	size_t key_length = equals ? (size_t)(equals - text) : strlen(text);
	char accepted[128] = "";

	for (size_t i = 0; i < ARGUMENT_COUNT; i++) {
		const struct argument *argument = &arguments_known[i];

		if (strlen(argument->key) != key_length || strncmp(argument->key, text, key_length) != 0)
			continue;
		if (equals && set_field(argument, site, equals + 1) == 0)
			return 0;
		snprintf(problem, size, "'%s' (accepted: %s=%s%s)", text, argument->key,
		         describe(argument, accepted, sizeof(accepted)), gone(text));
		return -EINVAL;
	}
	snprintf(problem, size, "'%s' (no such argument)", text);
	return -EINVAL;
}

int site_parse(int argument_count, char *const arguments[], struct site *ret_site, struct error *error)
{
	struct site site = {.default_policy = "off", .grant = SITE_GRANT_LEASE};
	char problems[400] = "";
	size_t used = 0;

	for (int i = 0; i < argument_count; i++) {
		char problem[160];

		if (parse_one(arguments[i], &site, problem, sizeof(problem)) == 0)
			continue;
		used += (size_t)snprintf(problems + used, sizeof(problems) - used, "%s%s", used ? ", " : "", problem);
		if (used >= sizeof(problems))
			used = sizeof(problems) - 1;
	}
	if (problems[0])
		return error_set(error, -EINVAL, "plugstack.conf: %s", problems);
	*ret_site = site;
	return 0;
}

enum site_threads site_threads_find(const char *word)
{
	for (const struct word *known = threads; known->word; known++)
		if (strcmp(known->word, word) == 0)
			return (enum site_threads)known->value;
	return SITE_THREADS_UNSAID;
}

const char *site_threads_word(enum site_threads value)
{
	for (const struct word *known = threads; known->word; known++)
		if ((int)value == known->value)
			return known->word;
	return "";
}

static bool list_has(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *item = list; *item; item += strcspn(item, ",") + (item[strcspn(item, ",")] == ',')) {
		if (strcspn(item, ",") == length && strncmp(item, name, length) == 0)
			return true;
	}
	return false;
}

bool site_is_switched_off(const struct site *site)
{
	return strcmp(site->default_policy, "off") == 0 && strcmp(site->allow, "off") == 0;
}

bool site_allows(const struct site *site, const char *policy)
{
	if (strcmp(policy, site->default_policy) == 0)
		return true;
	if (strcmp(policy, "off") == 0)
		return !site->enforce;
	if (site->allow[0])
		return list_has(site->allow, policy);
	return !site->enforce;
}
