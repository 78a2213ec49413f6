#include "spank/policy/site.h"

#include <errno.h>
#include <string.h>

#include "spank/base/json.h"
#include "spank/base/text.h"
#include "spank/policy/key.h"

#define FIELD(member) KEY_FIELD(struct site, member)

#define NAME   JSON_LOWER JSON_DIGITS "_-"
#define NUMBER "a whole number", .characters = JSON_DIGITS, .most = UINT32_MAX, .scale = 1

static const struct key arguments_known[] = {
        {"default", KEY_TEXT, FIELD(default_policy), "a policy's name", .characters = NAME},
        {"allow", KEY_TEXT, FIELD(allow), "policies' names with commas", .characters = NAME ","},
        {"enforce", KEY_WORD, FIELD(enforce), "no|yes"},
        {"policies", KEY_PATH, FIELD(policies), "an absolute path"},
        {"programs", KEY_PATH, FIELD(programs), "an absolute path"},
        {"pin", KEY_WORD, FIELD(pin), SITE_PIN_WORDS, .first = SITE_PIN_CORES},
        {"threads", KEY_WORD, FIELD(threads), SITE_THREADS_WORDS, .first = SITE_THREADS_KEEP},
        {"grant", KEY_WORD, FIELD(grant), "lease|file|off"},
        {"min_khz", KEY_NUMBER, FIELD(min_khz), NUMBER},
        {"spool", KEY_PATH, FIELD(spool), "an absolute path"},
        {"spool_user", KEY_TEXT, FIELD(spool_user), "a user's name", .characters = NAME "."},
        {"writer", KEY_WORD, FIELD(writer), "node|sweep"},
        {"sink", KEY_WORD, FIELD(sink), "slurmdbd|file"},
        {"field", KEY_WORD, FIELD(field), "admin_comment|system_comment|extra"},
        {"record", KEY_WORD, FIELD(record), "policy|all|mpi|none"},
        {"record_min_s", KEY_NUMBER, FIELD(record_min_s), NUMBER},
        {"energy_tres", KEY_WORD, FIELD(energy_tres), "off|on"},
        {"energy", KEY_TEXT, FIELD(energy), "some of " SITE_ENERGY, .characters = JSON_LOWER "+"},
};

#define PROBLEMS_MAX 400 /* bytes of all refusals, their NUL included */

#define ARGUMENT_COUNT (sizeof(arguments_known) / sizeof(arguments_known[0]))

/* Returns true if the list has only names of sources, each at most once. */
static bool energy_is_good(const char *list)
{
	size_t length = 0, sources = 0;

	for (const char *word = list; *word; word += length + (word[length] == '+')) {
		char name[SITE_ENERGY_MAX];

		length = strcspn(word, "+");
		snprintf(name, sizeof(name), "%.*s", (int)length, word);
		if (length == 0 || text_find(SITE_ENERGY, '+', name) < 0 ||
		    text_find(list, '+', name) != (int)sources++)
			return false;
	}
	return sources > 0 && list[strlen(list) - 1] != '+';
}

static bool argument_take(const struct key *argument, const char *text, struct site *site)
{
	if (key_set(argument, text, site) < 0)
		return false;
	return argument->offset != offsetof(struct site, energy) || energy_is_good(site->energy);
}

/* Parses one argument; adds to problems what is wrong with it. */
static void parse_one(const char *text, struct site *site, char problems[PROBLEMS_MAX])
{
	const struct key *argument = key_find(arguments_known, ARGUMENT_COUNT, text, strcspn(text, "="));
	const char *between = problems[0] ? ", " : "";
	char accepted[KEY_ACCEPTED_MAX];

	if (!argument)
		text_add(problems, PROBLEMS_MAX, "%s'%.100s' (no such argument)", between, text);
	else if (!argument_take(argument, text, site))
		text_add(problems, PROBLEMS_MAX, "%s'%.100s' (accepted: %s)", between, text,
		         key_accepted(argument, accepted));
}

int site_parse(int argument_count, char *const arguments[], struct site *ret_site, struct error *error)
{
	struct site site = {.default_policy = "off", .pin = SITE_PIN_CORES, .energy = SITE_ENERGY};
	char problems[PROBLEMS_MAX] = "";

	for (int i = 0; i < argument_count; i++)
		parse_one(arguments[i], &site, problems);
	if (problems[0])
		return error_set(error, -EINVAL, "plugstack.conf: %s", problems);
	*ret_site = site;
	return 0;
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
		return text_find(site->allow, ',', policy) >= 0;
	return !site->enforce;
}
