/* The option's value, its refusals, and the hint for a typo. */
#include <errno.h>
#include <stdlib.h>

#include "spank/policy/options.h"
#include "tests/lib/check.h"

static struct policy_set *shipped(void)
{
	struct policy_set *set = calloc(1, sizeof(*set));
	struct error error = {""};

	policy_load("", MPIWAIT_POLICIES, NULL, set, &error);
	CHECK(error.text[0] == '\0');
	CHECK(set->count >= 6);
	return set;
}

static void parses(void)
{
	struct error error = {""};
	struct options options;

	CHECK(options_parse("nap,slowdown=2.5,pin=none,profile", &options, &error) == 0);
	CHECK(strcmp(options.policy, "nap") == 0 && options.slowdown_ppm == 25000 && options.pin == SITE_PIN_NONE);
	CHECK(options.profile);
	CHECK(options_parse("umwait", &options, &error) == 0);
	CHECK(!options.slowdown_ppm && !options.pin && !options.profile && !options.ibarrier && !options.sites);
	CHECK(!options.csv[0]);
	CHECK(options_parse("nap,collectives=ibarrier", &options, &error) == 0 && options.ibarrier);
	CHECK(options_parse("nap,threads=passive", &options, &error) == 0 && options.threads == SITE_THREADS_PASSIVE);
	CHECK(options_parse("nap,polls=on", &options, &error) == 0 && options.polls == OPTIONS_POLLS_ON);
	CHECK(options_parse("nap,polls=off", &options, &error) == 0 && options.polls == OPTIONS_POLLS_OFF);
	CHECK(options_parse("nap,csv=a b/../c", &options, &error) == 0 && !options.threads && !options.polls);
	CHECK(strcmp(options.csv, "a b/../c") == 0 && options.profile);
	CHECK(options_parse("nap,slowdown=4%", &options, &error) == 0 && options.slowdown_ppm == 40000);
	CHECK(options_parse("nap,slowdown=0.01", &options, &error) == 0 && options.slowdown_ppm == 100);
}

#define TEXT(word)     TEXT_OF(word)
#define TEXT_OF(x)     #x
#define SLOWDOWN_RANGE "from " TEXT(OPTIONS_SLOWDOWN_LEAST) " to " TEXT(OPTIONS_SLOWDOWN_MOST)

static void refuses(void)
{
	static const struct {
		const char *text;
		const char *message;
	} cases[] = {
	        {"", "the policy is missing: the value is empty ('help' lists policies)"},
	        {"nap:slowdown=2", "did you mean 'nap,slowdown=2'?"},
	        {"nap slowdown=2,pin=none", "did you mean 'nap,slowdown=2'?"},
	        {"slowdown=2", "the policy is missing before 'slowdown=2' (as in 'nap,slowdown=2')"},
	        {"nap,Slowdown=2", "did you mean 'slowdown'?"},
	        {"nap,slodown=3", "did you mean 'slowdown'?"},
	        {"nap,slodown=3", "accepted: slowdown, pin, threads, polls, profile, sites, collectives, csv"},
	        {"nap,slowdown=0", SLOWDOWN_RANGE},
	        {"nap,slowdown=50.1", SLOWDOWN_RANGE},
	        {"nap,slowdown=0.00001", SLOWDOWN_RANGE},
	        {"nap,slowdown=0.0099", SLOWDOWN_RANGE},
	        {"nap,slowdown=nan", SLOWDOWN_RANGE},
	        {"nap,slowdown", SLOWDOWN_RANGE},
	        {"nap,pin=socket", "pin=cores|none"},
	        {"nap,threads=active", "'threads=active' is not valid (accepted: threads=keep|bounded|passive)"},
	        {"nap,threads", "threads=keep|bounded|passive"},
	        {"nap,threads=", "threads=keep|bounded|passive"},
	        {"nap,polls=yes", "'polls=yes' is not valid (accepted: polls=on|off)"},
	        {"nap,polls", "polls=on|off"},
	        {"nap,profile=yes", "without a value"},
	        {"nap,sites=on", "'sites=on' is not valid (accepted: sites, without a value)"},
	        {"nap,collectives", "collectives=ibarrier"},
	        {"nap,collectives=barrier", "collectives=ibarrier"},
	        {"nap,csv=", "csv=DIR"},
	        {"nap,csv", "csv=DIR"},
	        {"nap,", "'' is not a key"},
	        {"nap,a-key-that-is-longer-than-any-that-could-have-been-meant=1", "is not a key (accepted: slowdown"},
	        {"nap\n", "not printable ASCII"},
	        {"na'p", "a quote"},
	        {"a-name-that-is-longer-than-any-policy-may-be", "is not the name of a policy"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error error = {""};
		struct options options = {.policy = "x"};

		CHECK(options_parse(cases[i].text, &options, &error) == -EINVAL);
		CHECK_CONTAINS(error.text, cases[i].message);
		CHECK(strcmp(options.policy, "x") == 0);
	}
}

static void bounds_the_length(void)
{
	char text[4096];
	struct error error = {""};
	struct options options;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	CHECK(options_parse(text, &options, &error) == -EINVAL);
	CHECK_CONTAINS(error.text, "longer than");
}

static void hints(const struct policy_set *set)
{
	static const char *const cases[][2] = {{"umwiat", "'umwait'"}, {"umwai", "'umwait'"},    {"nop", "'nap'"},
	                                       {"atuo", "'auto'"},     {"yeild", "'yield'"},     {"of", "'off'"},
	                                       {"NAP", "'nap'"},       {"Profile", "'profile'"}, {"None", "'off'"},
	                                       {"none", "'off'"},      {"list", "'help'"},       {"HELP", "'help'"}};
	struct site site = {.default_policy = "off"};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct options options = {0};
		struct error error = {""};

		snprintf(options.policy, sizeof(options.policy), "%s", cases[i][0]);
		CHECK(options_check(&options, set, &site, &error) == -ENOENT);
		CHECK_CONTAINS(error.text, "did you mean");
		CHECK_CONTAINS(error.text, cases[i][1]);
	}
	struct site strict = {.default_policy = "nap", .allow = "nap", .enforce = true};
	struct options none = {.policy = "none"};
	struct error unsaid = {""};

	CHECK(options_check(&none, set, &strict, &unsaid) == -ENOENT);
	CHECK(!strstr(unsaid.text, "'off'")); /* it would be refused too */

	struct options far = {.policy = "zzzzzzzz"};
	struct error error = {""};

	CHECK(options_check(&far, set, &site, &error) == -ENOENT);
	CHECK(!strstr(error.text, "did you mean"));
	CHECK_CONTAINS(error.text, "umwait");
}

static void respects_the_site(const struct policy_set *set)
{
	struct site list = {.default_policy = "nap", .allow = "nap"};
	struct site enforced = {.default_policy = "nap", .enforce = true};
	struct site killed = {.default_policy = "off", .allow = "off"};
	struct options yield = {.policy = "yield"}, off = {.policy = "off"};
	struct error error = {""}, second = {""}, third = {""};

	CHECK(options_check(&yield, set, &list, &error) == -EPERM);
	CHECK_CONTAINS(error.text, "not allowed at this site (allowed: nap, off)");
	CHECK(options_check(&off, set, &enforced, &second) == -EPERM);
	CHECK(options_check(&yield, set, &killed, &third) == 0);
}

static void help(const struct policy_set *set, const struct site *site, const struct policy_support *support,
                 char text[8192])
{
	FILE *file = fmemopen(text, 8192, "w");

	CHECK(file != NULL);
	options_help(set, site, support, file);
	CHECK(fclose(file) == 0 && strlen(text) < 8191);
}

static void helps(const struct policy_set *set)
{
	struct site site = {.default_policy = "nap", .allow = "umwait"};
	struct policy_support support = {.rungs = 1u << MPIWAIT_RUNG_PAUSE | 1u << MPIWAIT_RUNG_NAP |
	                                          1u << MPIWAIT_RUNG_YIELD};
	char text[8192];

	support.why[MPIWAIT_RUNG_UMWAIT] = "no waitpkg";
	help(set, &site, &support, text);
	for (size_t i = 0; i < set->count; i++)
		CHECK_CONTAINS(text, set->policy[i].name);
	CHECK_CONTAINS(text, "(site default)");
	CHECK_CONTAINS(text, "(on this host 'nap': no waitpkg)");
	CHECK_CONTAINS(text, "(not allowed at this site)");
	site.allow[0] = '\0';
	support.why[MPIWAIT_RUNG_MWAITX] = "no mwaitx";
	help(set, &site, &support, text);
	CHECK_CONTAINS(text, "(on this host 'nap': no mwaitx)");
}

/* A site's own, that chooses: there is nothing that it lacks. */
static void helps_with_a_choice(const struct policy_set *shipped)
{
	static const struct policy choice = {
	        .name = "best", .inject = true, .choose = {"umwait", "nap"}, .choose_count = 2};
	struct site site = {.default_policy = "nap"};
	struct policy_support support = {.rungs = 1u << MPIWAIT_RUNG_NAP};
	struct policy_set *set = malloc(sizeof(*set));
	char text[8192];

	for (unsigned i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		support.why[i] = "";
	*set = *shipped;
	set->policy[set->count++] = choice;
	help(set, &site, &support, text);
	CHECK_CONTAINS(text, "(on this host 'nap')\n");
	free(set);
}

/* Each key with its default, what the dangerous one does, and where to go on from here. */
static void helps_with_keys(const struct policy_set *set)
{
	struct site site = {.default_policy = "off", .pin = SITE_PIN_NONE};
	struct policy_support support = {.rungs = 0};
	const struct policy *nap = policy_find(set, "nap");
	char text[8192], slowdown[64];
	static const char end[] = "\nAfter the job: mpi-wait report JOBID. More: man mpi-wait-policy\n";

	for (unsigned i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		support.why[i] = "";
	help(set, &site, &support, text);
	snprintf(slowdown, sizeof(slowdown), "(default: the policy's, nap has %g)", (double)nap->slowdown_ppm / 1e4);
	CHECK_CONTAINS(text, slowdown);
	CHECK_CONTAINS(text, SLOWDOWN_RANGE);
	CHECK_CONTAINS(text, "pin=cores|none (default: none)\n");
	CHECK_CONTAINS(text, "threads=keep|bounded|passive (default: bounded where ranks nap)\n");
	CHECK_CONTAINS(text, "polls=on|off (default: off, or the policy's)\n");
	CHECK_CONTAINS(text, "profile, without a value (default: off)\n");
	CHECK_CONTAINS(text, "it hangs the job if one rank lacks the library\n");
	CHECK(strcmp(text + strlen(text) - strlen(end), end) == 0);
	site.threads = SITE_THREADS_KEEP;
	help(set, &site, &support, text);
	CHECK_CONTAINS(text, "threads=keep|bounded|passive (default: keep)\n");
}

int main(void)
{
	struct policy_set *set = shipped();

	parses();
	refuses();
	bounds_the_length();
	hints(set);
	respects_the_site(set);
	helps(set);
	helps_with_a_choice(set);
	helps_with_keys(set);
	free(set);
	return CHECK_RESULT;
}
