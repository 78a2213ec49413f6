/*
 * The option's value. A refusal names what is wrong, what would be accepted, and what was probably meant.
 */
#include "spank/policy/options.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX 48
/* Of a policy's name, in either case. */
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
#define TEXT(word)   TEXT_OF(word)
#define TEXT_OF(x)   #x

struct key {
	const char *name;
	const char *accepted;
	int (*set)(const char *value, struct options *options);
	const char *does; /* for the help, after the default */
};

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

static int set_slowdown(const char *value, struct options *options)
{
	char *end = NULL;
	double percent;

	if (!value || value[0] < '0' || value[0] > '9')
		return -EINVAL;
	percent = number_parse(value, &end);
	if (*end == '%')
		end++;
	if (*end || !(percent >= OPTIONS_SLOWDOWN_LEAST) || percent > OPTIONS_SLOWDOWN_MOST)
		return -EINVAL;
	options->has_slowdown = true;
	options->slowdown_ppm = (uint32_t)(percent * 1e4 + 0.5);
	return 0;
}

static int set_pin(const char *value, struct options *options)
{
	if (!value || (strcmp(value, "cores") != 0 && strcmp(value, "none") != 0))
		return -EINVAL;
	options->has_pin = true;
	options->pin = strcmp(value, "cores") == 0 ? SITE_PIN_CORES : SITE_PIN_NONE;
	return 0;
}

static int set_profile(const char *value, struct options *options)
{
	options->profile = true;
	return value ? -EINVAL : 0;
}

static int set_sites(const char *value, struct options *options)
{
	options->sites = true;
	return value ? -EINVAL : 0;
}

static int set_threads(const char *value, struct options *options)
{
	options->threads = value ? site_threads_find(value) : SITE_THREADS_UNSAID;
	return options->threads == SITE_THREADS_UNSAID ? -EINVAL : 0;
}

static int set_polls(const char *value, struct options *options)
{
	if (!value || (strcmp(value, "on") != 0 && strcmp(value, "off") != 0))
		return -EINVAL;
	options->has_polls = true;
	options->polls = strcmp(value, "on") == 0;
	return 0;
}

static int set_collectives(const char *value, struct options *options)
{
	if (!value || strcmp(value, "ibarrier") != 0)
		return -EINVAL;
	options->ibarrier = true;
	return 0;
}

/* Any path that fits: it is the user who opens it. Nothing can be counted for it without profile. */
static int set_csv(const char *value, struct options *options)
{
	if (!value || !value[0])
		return -EINVAL;
	snprintf(options->csv, sizeof(options->csv), "%s", value);
	options->profile = true;
	return 0;
}

static const struct key keys[] = {
        {"slowdown", "slowdown=PERCENT, from " TEXT(OPTIONS_SLOWDOWN_LEAST) " to " TEXT(OPTIONS_SLOWDOWN_MOST),
         set_slowdown, "by how much of its time a rank may be late"},
        {"pin", "pin=cores|none", set_pin, "whether tasks that nobody bound get cores of their own"},
        {"threads", "threads=" SITE_THREADS_WORDS, set_threads, "whether a rank's OpenMP threads spin while it waits"},
        {"polls", "polls=on|off", set_polls, "rests in loops of the program's own that only test and probe"},
        {"profile", "profile, without a value", set_profile, "times every call, counts bytes, sums waits by phase"},
        {"sites", "sites, without a value", set_sites, "sums waits by where the program called MPI from"},
        {"collectives", "collectives=ibarrier", set_collectives,
         "an Ibarrier with naps before five collectives;\n"
         "            it hangs the job if one rank lacks the library"},
        {"csv", "csv=DIR, without commas", set_csv, "profile, and two files per node in DIR when the step ends"},
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

static size_t minimum(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ASCII only, whatever the locale. */
static char lower(char letter)
{
	static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", small[] = "abcdefghijklmnopqrstuvwxyz";
	const char *found = letter ? strchr(capitals, letter) : NULL;

	if (found)
		letter = small[found - capitals];
	return letter;
}

/* Optimal string alignment distance (Damerau-Levenshtein without repeated edits of a substring) of words in lower case.
 */
static size_t distance(const char *left, const char *right)
{
	size_t rows = strlen(left), columns = strlen(right);
	size_t table[3][WORD_MAX + 1];

	if (rows > WORD_MAX || columns > WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= columns; j++)
		table[0][j] = j;
	for (size_t i = 1; i <= rows; i++) {
		size_t *row = table[i % 3], *above = table[(i + 2) % 3], *above_that = table[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= columns; j++) {
			row[j] = minimum(minimum(above[j], row[j - 1]) + 1,
			                 above[j - 1] + (lower(left[i - 1]) != right[j - 1]));
			if (i > 1 && j > 1 && lower(left[i - 1]) == right[j - 2] && lower(left[i - 2]) == right[j - 1])
				row[j] = minimum(row[j], above_that[j - 2] + 1);
		}
	}
	return table[rows % 3][columns];
}

const char *options_nearest(const char *text, const char *const candidates[], size_t candidate_count)
{
	const char *nearest = NULL;
	size_t best = strlen(text) / 2 < 3 ? strlen(text) / 2 + 1 : 4;

	for (size_t i = 0; i < candidate_count; i++) {
		size_t edits = distance(text, candidates[i]);

		if (edits < best) {
			best = edits;
			nearest = candidates[i];
		}
	}
	return nearest;
}

/* Joins the words that pass into "a, b, c". */
static void join(char *buffer, size_t size, const char *const words[], size_t count)
{
	size_t used = 0;

	buffer[0] = '\0';
	for (size_t i = 0; i < count && used < size; i++)
		used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", words[i]);
}

static int refuse_key(const char *name, struct error *error)
{
	const char *names[KEY_COUNT];
	const char *nearest;
	char accepted[128];

	for (size_t i = 0; i < KEY_COUNT; i++)
		names[i] = keys[i].name;
	nearest = options_nearest(name, names, KEY_COUNT);
	join(accepted, sizeof(accepted), names, KEY_COUNT);
	return error_set(error, -EINVAL, "'%.48s' is not a key (accepted: %s)%s%s%s", name, accepted,
	                 nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static int parse_key(char *word, struct options *options, struct error *error)
{
	char *equals = strchr(word, '=');

	if (equals)
		*equals = '\0';
	for (size_t i = 0; i < KEY_COUNT; i++) {
		if (strcmp(keys[i].name, word) != 0)
			continue;
		if (keys[i].set(equals ? equals + 1 : NULL, options) == 0)
			return 0;
		return error_set(error, -EINVAL, "'%s%s%.48s' is not valid (accepted: %s)", word, equals ? "=" : "",
		                 equals ? equals + 1 : "", keys[i].accepted);
	}
	return refuse_key(word, error);
}

/* Words that were meant to separate the first key from the policy, and a key without a policy before it. */
static int check_policy_word(const char *word, struct error *error)
{
	size_t length = strspn(word, NAME_LETTERS);

	for (size_t i = 0; i < KEY_COUNT && word[length] == '='; i++)
		if (strlen(keys[i].name) == length && strncmp(keys[i].name, word, length) == 0)
			return error_set(error, -EINVAL, "the policy is missing before '%.48s' (as in 'nap,%.48s')",
			                 word, word);
	if (length > 0 && word[length] && strchr(":;+ ", word[length]) && word[length + 1])
		return error_set(error, -EINVAL,
		                 "'%.48s' is not the name of a policy ('help' lists them); did you mean '%.*s,%.48s'?",
		                 word, (int)minimum(length, WORD_MAX), word, word + length + 1);
	if (strlen(word) >= POLICY_NAME_MAX)
		return error_set(error, -EINVAL, "'%.48s' is not the name of a policy ('help' lists them)", word);
	return 0;
}

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~' || *text == '\'' || *text == '"' || *text == '\\')
			return false;
	return true;
}

int options_parse(const char *text, struct options *ret_options, struct error *error)
{
	struct options options = {0};
	char copy[OPTIONS_TEXT_MAX];
	char *rest = copy, *word;
	int rc;

	if (!text || !text[0])
		return error_set(error, -EINVAL, "the policy is missing: the value is empty ('help' lists policies)");
	if (strlen(text) >= sizeof(copy))
		return error_set(error, -EINVAL, "the value is longer than %d bytes", OPTIONS_TEXT_MAX - 1);
	if (!is_plain(text))
		return error_set(error, -EINVAL,
		                 "the value has a quote, a backslash or a character that is not printable ASCII");
	strcpy(copy, text);
	word = strsep(&rest, ",");
	rc = check_policy_word(word, error);
	if (rc < 0)
		return rc;
	strcpy(options.policy, word);
	while ((word = strsep(&rest, ","))) {
		rc = parse_key(word, &options, error);
		if (rc < 0)
			return rc;
	}
	*ret_options = options;
	return 0;
}

static size_t allowed_names(const struct policy_set *set, const struct site *site, const char *names[])
{
	size_t count = 0;

	for (size_t i = 0; i < set->count; i++)
		if (site_is_switched_off(site) || site_allows(site, set->policy[i].name))
			names[count++] = set->policy[i].name;
	return count;
}

static bool is_among(const char *word, const char *const words[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return strcmp(word, "help") == 0;
}

/* What people write for one of these names, and for "help"; NULL: nothing of that. */
static const char *meant_by(const char *word, const char *const names[], size_t count)
{
	static const char *const words[][2] = {
	        {"none", "off"},  {"no", "off"},    {"false", "off"}, {"disable", "off"}, {"disabled", "off"},
	        {"list", "help"}, {"show", "help"}, {"?", "help"},    {"sleep", "nap"},   {"help", "help"},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (distance(word, words[i][0]) == 0 && is_among(words[i][1], names, count))
			return words[i][1];
	return NULL;
}

int options_check(const struct options *options, const struct policy_set *set, const struct site *site,
                  struct error *error)
{
	const char *names[POLICY_COUNT_MAX];
	size_t count = allowed_names(set, site, names);
	const char *nearest;
	char accepted[256];

	join(accepted, sizeof(accepted), names, count);
	if (policy_find(set, options->policy)) {
		if (site_is_switched_off(site) || site_allows(site, options->policy))
			return 0;
		return error_set(error, -EPERM, "policy '%s' is not allowed at this site (allowed: %s)",
		                 options->policy, accepted);
	}
	nearest = meant_by(options->policy, names, count);
	if (!nearest)
		nearest = options_nearest(options->policy, names, count);
	return error_set(error, -ENOENT, "unknown policy '%s' (accepted: %s)%s%s%s", options->policy, accepted,
	                 nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* A policy that only measures changes nothing, whatever the site says. */
static enum site_threads threads_of(const struct site *site, const struct policy *policy)
{
	const uint32_t naps = 1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_EVENT;

	if (policy->threads != SITE_THREADS_UNSAID)
		return policy->threads;
	if (site->threads != SITE_THREADS_UNSAID && policy->rungs)
		return site->threads;
	return policy->rungs & naps ? SITE_THREADS_BOUNDED : SITE_THREADS_KEEP;
}

void options_apply(const struct options *options, const struct site *site, struct policy *policy)
{
	policy->threads = options->threads ? options->threads : threads_of(site, policy);
	if (options->has_slowdown && policy->slowdown_ppm)
		policy->slowdown_ppm = options->slowdown_ppm;
	else if (options->has_slowdown)
		policy->relative_ppm = options->slowdown_ppm;
	if (options->has_polls)
		policy->polls = options->polls;
	policy->ibarrier = options->ibarrier;
	policy->sites = options->sites;
}

/* What a user should know of that policy here and now; "" for nothing. */
static void help_remark(const struct policy *policy, const struct policy_set *set, const struct site *site,
                        const struct policy_support *support, char *buffer, size_t size)
{
	const char *mark = strcmp(site->default_policy, policy->name) == 0 ? "site default" : "";
	struct policy_use use = {.used = ""};
	char here[128] = "";

	if (!site_allows(site, policy->name))
		snprintf(here, sizeof(here), "not allowed at this site");
	else if (policy_resolve(set, policy->name, support, &use) && use.why[0])
		snprintf(here, sizeof(here), "on this host '%s': %s", use.used, use.why);
	else if (strcmp(use.used, policy->name) != 0)
		snprintf(here, sizeof(here), "on this host '%s'", use.used);
	snprintf(buffer, size, "%s%s%s", mark, mark[0] && here[0] ? "; " : "", here);
}

static size_t help_line(const struct policy *policy, const struct policy_set *set, const struct site *site,
                        const struct policy_support *support, char *buffer, size_t size)
{
	char remark[160];

	help_remark(policy, set, site, support, remark, sizeof(remark));
	return (size_t)snprintf(buffer, size, "  %-9s %s\n%s%s%s", policy->name, policy->summary,
	                        remark[0] ? "            (" : "", remark, remark[0] ? ")\n" : "");
}

/* The value without the key, or what the site or the policy has instead. */
static void key_default(const struct key *key, const struct policy_set *set, const struct site *site, char buffer[48])
{
	const struct policy *nap = policy_find(set, "nap");

	snprintf(buffer, 48, "not");
	if (key->set == set_pin)
		snprintf(buffer, 48, "%s", site->pin == SITE_PIN_CORES ? "cores" : "none");
	else if (key->set == set_polls)
		snprintf(buffer, 48, "off, or the policy's");
	else if (key->set == set_threads)
		snprintf(buffer, 48, "%s",
		         site->threads ? site_threads_word(site->threads) : "bounded where ranks nap");
	else if (key->set == set_slowdown && nap)
		snprintf(buffer, 48, "the policy's, nap has %g",
		         (double)(nap->slowdown_ppm ? nap->slowdown_ppm : nap->relative_ppm) / 1e4);
	else if (key->set == set_slowdown)
		snprintf(buffer, 48, "the policy's");
}

static size_t help_keys(const struct policy_set *set, const struct site *site, char *buffer, size_t size)
{
	size_t used = (size_t)snprintf(buffer, size, "\nKeys:\n");

	for (size_t i = 0; i < KEY_COUNT && used < size; i++) {
		char standard[48];

		key_default(&keys[i], set, site, standard);
		used += (size_t)snprintf(buffer + used, size - used, "  %s (default: %s)\n            %s\n",
		                         keys[i].accepted, standard, keys[i].does);
	}
	return used;
}

size_t options_help(const struct policy_set *set, const struct site *site, const struct policy_support *support,
                    char *buffer, size_t size)
{
	size_t used = (size_t)snprintf(buffer, size, "--mpi-wait-policy=NAME[,KEY=VALUE...]\n\nPolicies:\n");

	for (size_t i = 0; i < set->count && used < size; i++)
		used += help_line(&set->policy[i], set, site, support, buffer + used, size - used);
	if (used < size)
		used += help_keys(set, site, buffer + used, size - used);
	if (used < size)
		used += (size_t)snprintf(
		        buffer + used, size - used,
		        "\nThe nodes of the job may differ from this host: the record says what was used.%s\n"
		        "\nAfter the job: mpi-wait report JOBID. More: man mpi-wait-policy\n",
		        site_is_switched_off(site) ? "\nThe site has switched all policies off." : "");
	return minimum(used, size ? size - 1 : 0);
}
