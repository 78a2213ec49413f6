/* A refusal names what is wrong, what would be accepted, and what was probably meant. */
#include "spank/policy/options.h"

#include <errno.h>
#include <string.h>

#include "spank/base/text.h"
#include "spank/policy/key.h"

#define SHOWN        48  /* bytes of a word that a refusal shows */
#define ACCEPTED_MAX 256 /* bytes of a list of accepted words, its NUL included */
/* Characters of a policy's name, in either case. */
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
#define TEXT(word)   TEXT_OF(word)
#define TEXT_OF(x)   #x

#define FIELD(member) KEY_FIELD(struct options, member)

static const struct key keys[] = {
        {"slowdown", KEY_NUMBER, FIELD(slowdown_ppm),
         "PERCENT, from " TEXT(OPTIONS_SLOWDOWN_LEAST) " to " TEXT(OPTIONS_SLOWDOWN_MOST),
         "bounds what sleeping costs the job, as measured:\n            turns of the program's loop with sleep "
         "against those without",
         "the policy's", .least = OPTIONS_SLOWDOWN_LEAST, .most = OPTIONS_SLOWDOWN_MOST, .scale = 1e4},
        {"pin", KEY_WORD, FIELD(pin), SITE_PIN_WORDS, "whether unbound tasks get cores of their own", "cores",
         .first = SITE_PIN_CORES},
        {"threads", KEY_WORD, FIELD(threads), SITE_THREADS_WORDS, "whether a rank's OpenMP threads spin while it waits",
         "bounded where ranks nap", .first = SITE_THREADS_KEEP},
        {"polls", KEY_WORD, FIELD(polls), "on|off", "naps in loops of the program's own that only test and probe",
         "off, or the policy's", .first = OPTIONS_POLLS_ON},
        {"profile", KEY_MARK, FIELD(profile), "without a value", "times every call, counts bytes, sums waits by phase",
         "off"},
        {"sites", KEY_MARK, FIELD(sites), "without a value", "sums waits by where the program called MPI from", "off"},
        {"collectives", KEY_WORD, FIELD(ibarrier), "ibarrier",
         "an Ibarrier with naps before five collectives;\n            it hangs the job if one rank lacks the library",
         "off", .first = true},
        {"csv", KEY_TEXT, FIELD(csv), "DIR, without commas",
         "profile, and two files per node in DIR, by the last rank that leaves MPI", "off"},
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

/* As tolower for ASCII only, whatever the locale. */
static char lower(char letter)
{
	static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", small[] = "abcdefghijklmnopqrstuvwxyz";
	const char *found = letter ? strchr(capitals, letter) : NULL;

	if (found)
		letter = small[found - capitals];
	return letter;
}

static size_t minimum(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * Returns how many edits (insert, delete, change, swap two neighbours) turn left, in lower case, into right; most + 1
 * if it takes more than `most`.
 */
static size_t edits(const char *left, const char *right, size_t most)
{
	size_t least;

	while (*left && lower(*left) == *right)
		left++, right++;
	if (!*left || !*right || most == 0)
		return minimum(strlen(left) + strlen(right), most + 1);
	least = minimum(edits(left + 1, right, most - 1), edits(left, right + 1, most - 1));
	least = minimum(least, edits(left + 1, right + 1, most - 1));
	if (lower(left[0]) == right[1] && lower(left[1]) == right[0])
		least = minimum(least, edits(left + 2, right + 2, most - 1));
	return least + 1;
}

/* Returns the name with the fewest edits from word, or NULL if none is near. */
static const char *nearest_of(const char *word, const char *const names[], size_t count)
{
	size_t best = minimum(strlen(word) / 2, 3) + 1;
	const char *nearest = NULL;

	for (size_t i = 0; i < count && best > 0; i++) {
		size_t away = edits(word, names[i], best - 1);

		if (away < best) {
			best = away;
			nearest = names[i];
		}
	}
	return nearest;
}

/* Joins the words into "a, b, c". */
static void join(const char *const words[], size_t count, char buffer[ACCEPTED_MAX])
{
	buffer[0] = '\0';
	for (size_t i = 0; i < count; i++)
		text_add(buffer, ACCEPTED_MAX, "%s%s", i ? ", " : "", words[i]);
}

int options_refuse(const char *before, const char *word, const char *after, const char *const names[], size_t count,
                   const char *nearest, struct error *error)
{
	char accepted[ACCEPTED_MAX];

	join(names, count, accepted);
	nearest = nearest ? nearest : nearest_of(word, names, count);
	return error_set(error, -ENOENT, "%s'%.*s'%s (accepted: %s)%s%s%s", before, SHOWN, word, after, accepted,
	                 nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static int parse_key(char *word, struct options *options, struct error *error)
{
	const struct key *key = key_find(keys, KEY_COUNT, word, strcspn(word, "="));
	const char *names[KEY_COUNT];
	char accepted[KEY_ACCEPTED_MAX];

	if (key && key_set(key, word, options) == 0)
		return 0;
	if (key)
		return error_set(error, -EINVAL, "'%.*s' is not valid (accepted: %s)",
		                 (int)strlen(key->name) + 1 + SHOWN, word, key_accepted(key, accepted));
	for (size_t i = 0; i < KEY_COUNT; i++)
		names[i] = keys[i].name;
	word[strcspn(word, "=")] = '\0';
	options_refuse("", word, " is not a key", names, KEY_COUNT, NULL, error);
	return -EINVAL;
}

/* Refuses a key without a policy before it, and other characters than a comma after the policy. */
static int check_policy_word(const char *word, struct error *error)
{
	size_t length = strspn(word, NAME_LETTERS);

	if (word[length] == '=' && key_find(keys, KEY_COUNT, word, length))
		return error_set(error, -EINVAL, "the policy is missing before '%.*s' (as in 'nap,%.*s')", SHOWN, word,
		                 SHOWN, word);
	if (length > 0 && word[length] && strchr(":;+ ", word[length]) && word[length + 1])
		return error_set(error, -EINVAL,
		                 "'%.*s' is not the name of a policy ('help' lists them); did you mean '%.*s,%.*s'?",
		                 SHOWN, word, (int)minimum(length, SHOWN), word, SHOWN, word + length + 1);
	if (strlen(word) >= POLICY_NAME_MAX)
		return error_set(error, -EINVAL, "'%.*s' is not the name of a policy ('help' lists them)", SHOWN, word);
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
	/* csv= needs what profile counts */
	options.profile |= options.csv[0] != '\0';
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

/* Returns the name, or "help", that people mean by a common wrong word, as "off" by "none"; NULL: no such word. */
static const char *meant_by(const char *word, const char *const names[], size_t count)
{
	static const char *const words[][2] = {
	        {"none", "off"},  {"no", "off"},    {"false", "off"}, {"disable", "off"}, {"disabled", "off"},
	        {"list", "help"}, {"show", "help"}, {"?", "help"},    {"sleep", "nap"},   {"help", "help"},
	};
	const char *meant = NULL;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (edits(word, words[i][0], 0) == 0)
			meant = words[i][1];
	for (size_t i = 0; meant && i < count; i++)
		if (strcmp(meant, names[i]) == 0)
			return meant;
	return meant && strcmp(meant, "help") == 0 ? meant : NULL;
}

int options_check(const struct options *options, const struct policy_set *set, const struct site *site,
                  struct error *error)
{
	const char *names[POLICY_COUNT_MAX];
	size_t count = allowed_names(set, site, names);
	char allowed[ACCEPTED_MAX];

	if (!policy_find(set, options->policy))
		return options_refuse("unknown policy ", options->policy, "", names, count,
		                      meant_by(options->policy, names, count), error);
	if (site_is_switched_off(site) || site_allows(site, options->policy))
		return 0;
	join(names, count, allowed);
	return error_set(error, -EPERM, "policy '%s' is not allowed at this site (allowed: %s)", options->policy,
	                 allowed);
}

/* Returns threads= without the option. The site's value does not apply to a policy without rungs: it only measures. */
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
	if (options->slowdown_ppm && policy->slowdown_ppm)
		policy->slowdown_ppm = options->slowdown_ppm;
	else if (options->slowdown_ppm)
		policy->relative_ppm = options->slowdown_ppm;
	if (options->polls)
		policy->polls = options->polls == OPTIONS_POLLS_ON;
	policy->ibarrier = options->ibarrier;
	policy->sites = options->sites;
}

bool options_profile(const struct options *options, const struct policy *policy)
{
	return options->profile || strcmp(policy->name, "profile") == 0;
}

/* Prints a policy's line, and a second one if it is the default, not allowed, or falls back on this host. */
static void help_policy(const struct policy *policy, const struct policy_set *set, const struct site *site,
                        const struct policy_support *support, FILE *file)
{
	bool is_default = strcmp(site->default_policy, policy->name) == 0;
	struct policy_use use = {.used = ""};
	char here[128] = "";

	if (!site_allows(site, policy->name))
		snprintf(here, sizeof(here), "not allowed at this site");
	else if (policy_resolve(set, policy->name, support, &use) && use.why[0])
		snprintf(here, sizeof(here), "on this host '%s': %s", use.used, use.why);
	else if (strcmp(use.used, policy->name) != 0)
		snprintf(here, sizeof(here), "on this host '%s'", use.used);
	fprintf(file, "  %-9s %s\n", policy->name, policy->summary);
	if (is_default || here[0])
		fprintf(file, "            (%s%s%s)\n", is_default ? "site default" : "",
		        is_default && here[0] ? "; " : "", here);
}

/* Prints a key with its default, which the site or the policy may set. */
static void help_key(const struct key *key, const struct policy_set *set, const struct site *site, FILE *file)
{
	const struct policy *nap = policy_find(set, "nap");
	int said = key->offset == offsetof(struct options, pin)       ? (int)site->pin
	           : key->offset == offsetof(struct options, threads) ? (int)site->threads
	                                                              : 0;
	const char *standard = said ? key->accepted : key->standard;
	char accepted[KEY_ACCEPTED_MAX];

	for (int word = key->first; word < said; word++)
		standard = strchr(standard, '|') + 1;
	fprintf(file, "  %s (default: %.*s", key_accepted(key, accepted), (int)strcspn(standard, "|"), standard);
	if (key->offset == offsetof(struct options, slowdown_ppm) && nap)
		fprintf(file, ", nap has %g",
		        (double)(nap->slowdown_ppm ? nap->slowdown_ppm : nap->relative_ppm) / 1e4);
	fprintf(file, ")\n            %s\n", key->does);
}

void options_help(const struct policy_set *set, const struct site *site, const struct policy_support *support,
                  FILE *file)
{
	fputs("--mpi-wait-policy=NAME[,KEY=VALUE...]\n\nPolicies:\n", file);
	for (size_t i = 0; i < set->count; i++)
		help_policy(&set->policy[i], set, site, support, file);
	fputs("\nKeys:\n", file);
	for (size_t i = 0; i < KEY_COUNT; i++)
		help_key(&keys[i], set, site, file);
	fprintf(file,
	        "\nThe nodes of the job may differ from this host: the record says what was used.%s\n"
	        "\nAfter the job: mpi-wait report JOBID. More: man mpi-wait-policy\n",
	        site_is_switched_off(site) ? "\nThe site has switched all policies off." : "");
}
