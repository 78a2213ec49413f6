/* Policies: the strict parser, and the choice of what a host can serve. */
#include <errno.h>
#include <stdlib.h>

#include "spank/policy/options.h"
#include "spank/policy/policy.h"
#include "tests/lib/check.h"

#define PAUSE  (1u << MPIWAIT_RUNG_PAUSE)
#define NAP    (1u << MPIWAIT_RUNG_NAP)
#define UMWAIT (1u << MPIWAIT_RUNG_UMWAIT)
#define MWAITX (1u << MPIWAIT_RUNG_MWAITX)
#define PSTATE (1u << MPIWAIT_RUNG_PSTATE)

static int parse(const char *text, struct policy *ret_policy, struct error *error)
{
	return policy_parse(text, strlen(text), "x", ret_policy, error);
}

static void parses(void)
{
	struct error error = {""};
	struct policy policy;
	struct cpu cpu = {.waitpkg = true, .mwaitx = true, .tsc_khz = 2600000, .umwait_max_ns = 38461};
	char flat[POLICY_FLAT_MAX], tiny[16];

	CHECK(parse("{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[\"pause\",\"nap\"],\"needs\":[\"nap\"],"
	            "\"budget\":{\"spin_us\":20,\"relative\":0.0625,\"absolute_us\":1.5,\"max_us\":100,\"rma_us\":10},"
	            "\"slowdown_percent\":1,\"fallback\":\"profile\"}",
	            &policy, &error) == 0);
	CHECK(policy.inject && policy.rungs == (PAUSE | NAP) && policy.needs == NAP);
	CHECK(policy_flatten(&policy, &cpu, true, false, flat, sizeof(flat)) > 0);
	CHECK(strcmp(flat,
	             "v=1;rungs=pause+nap;spin_ns=20000;relative_ppm=62500;absolute_ns=1500;max_ns=100000;rma_ns=10000;"
	             "shared=1;profile=0;slowdown_ppm=10000") == 0);
	CHECK(policy_flatten(&policy, &cpu, true, false, tiny, sizeof(tiny)) == -ENOSPC);
	policy.ibarrier = policy.sites = true;
	CHECK(policy_flatten(&policy, &cpu, true, false, flat, sizeof(flat)) > 0);
	CHECK_CONTAINS(flat, ";profile=0;ibarrier=1;sites=1;slowdown_ppm=10000");
	policy.ibarrier = policy.sites = false;
	policy.rungs |= UMWAIT;
	CHECK(policy_flatten(&policy, &cpu, true, false, flat, sizeof(flat)) > 0);
	CHECK_CONTAINS(flat, ";profile=0;slowdown_ppm=10000;tsc_khz=2600000;umwait_max_ns=38461;umwait_c02=0");
	policy.rungs = MWAITX;
	CHECK(policy_flatten(&policy, &cpu, true, false, flat, sizeof(flat)) > 0);
	CHECK(strcmp(strstr(flat, ";profile="), ";profile=0;slowdown_ppm=10000;tsc_khz=2600000") == 0);
	CHECK(parse("{\"$schema\":\"policy.schema.json\",\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[]}",
	            &policy, &error) == 0);
	CHECK(policy_flatten(&policy, &cpu, false, true, flat, sizeof(flat)) > 0);
	CHECK_CONTAINS(flat, "v=1;rungs=none;");
	policy.rungs = PSTATE;
	policy.pstate_after_ns = 2000000;
	CHECK(policy_flatten(&policy, &cpu, false, true, flat, sizeof(flat)) > 0);
	CHECK_CONTAINS(flat, ";pstate_after_ns=2000000");
}

static void probes(void)
{
	struct cpu cpu = {.tsc_khz = 0};
	struct policy_support support;

	policy_probe(&cpu, SITE_GRANT_LEASE, &support);
	CHECK(support.rungs == (PAUSE | NAP | 1u << MPIWAIT_RUNG_YIELD | 1u << MPIWAIT_RUNG_EVENT));
	CHECK(strcmp(support.why[MPIWAIT_RUNG_UMWAIT], "no waitpkg") == 0);
	CHECK(strcmp(support.why[MPIWAIT_RUNG_MWAITX], "no mwaitx") == 0);
	CHECK(strcmp(support.why[MPIWAIT_RUNG_PSTATE], "no cpufreq") == 0);
	policy_probe(&cpu, SITE_GRANT_OFF, &support);
	CHECK(strcmp(support.why[MPIWAIT_RUNG_PSTATE], "grant=off") == 0);
	cpu.waitpkg = cpu.mwaitx = true;
	policy_probe(&cpu, SITE_GRANT_LEASE, &support);
	CHECK(!(support.rungs & (UMWAIT | MWAITX)));
	CHECK(strcmp(support.why[MPIWAIT_RUNG_UMWAIT], "TSC not usable") == 0);
	CHECK(strcmp(support.why[MPIWAIT_RUNG_MWAITX], "TSC not usable") == 0);
	cpu.tsc_khz = 1;
	policy_probe(&cpu, SITE_GRANT_LEASE, &support);
	CHECK(support.rungs & UMWAIT && support.rungs & MWAITX);
}

static void refuses(void)
{
	static const struct {
		const char *text;
		const char *message;
	} cases[] = {
	        {"", "line"},
	        {"[]", "not a JSON object"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"colour\":1}", "unknown key 'colour'"},
	        {"{\"version\":2,\"name\":\"x\",\"summary\":\"s\"}", "'version' is not 1"},
	        {"{\"name\":\"x\",\"summary\":\"s\"}", "'version' is missing"},
	        {"{\"version\":1,\"name\":\"x\"}", "'summary' is missing"},
	        {"{\"version\":1,\"name\":\"y\",\"summary\":\"s\",\"rungs\":[]}", "the file is called 'x.json'"},
	        {"{\"version\":1,\"name\":\"X/..\",\"summary\":\"s\"}", "not the name of a policy"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"a\\u001bb\"}", "control character"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[\"sleep\"]}",
	         "'rungs' has 'sleep' (accepted: pause"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"needs\":[\"nap\"]}",
	         "'needs' has a rung that 'rungs' lacks"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"budget\":{\"relative\":1.5}}",
	         "not a number from 0 to 1"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"budget\":{\"max_us\":-1}}", "not a number"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"budget\":{\"maximum\":1}}",
	         "'budget' has 'maximum'"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"name\":\"x\"}", "duplicate"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"inject\":1}", "'inject' is not true or false"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"choose\":[]}", "'choose' is not a list"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"choose\":[\"nap\",7]}",
	         "'choose' is not the name of a policy"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\"}", "'rungs' is missing"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[\"nap\"]}", "'budget' is missing"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[\"nap\",\"nap\"]}", "'nap' twice"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"budget\":{\"spin_us\":1}}",
	         "'budget' lacks"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"\",\"rungs\":[]}", "1 to 95 bytes"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"slowdown_percent\":0.009}",
	         "'slowdown_percent' is not a number from 0.01 to 50"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"slowdown_percent\":2}",
	         "'slowdown_percent' without rungs"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"pstate_after_us\":999}",
	         "'pstate_after_us' is not a number from 1000 to 1000000"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"pstate_after_us\":2000}",
	         "'pstate_after_us' without the rung 'pstate'"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"inject\":false,\"fallback\":\"nap\"}",
	         "'inject' false has no"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"threads\":\"active\"}",
	         "'threads' is not one of keep|bounded|passive"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"polls\":\"on\"}",
	         "'polls' is not true or false"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"polls\":true}",
	         "'polls' without rungs"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"threads\":1}",
	         "'threads' is not one of keep|bounded|passive"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":\"nap\"}",
	         "'rungs' is not a list of rungs"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"needs\":{}}",
	         "'needs' is not a list of rungs"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[],\"budget\":[]}",
	         "'budget' is not an object"},
	        {"{\"version\":1,\"name\":\"x\",\"summary\":\"s\",\"rungs\":[\"nap\"],\"choose\":[\"nap\"],\"budget\":{"
	         "\"spin_us\":20,\"relative\":0.0625,\"absolute_us\":1.5,\"max_us\":100,\"rma_us\":10}}",
	         "'choose' and rungs exclude each other"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error error = {""};
		struct policy policy = {.rungs = 77};

		CHECK(parse(cases[i].text, &policy, &error) == -EINVAL);
		CHECK_CONTAINS(error.text, cases[i].message);
		CHECK(policy.rungs == 77);
	}
}

/* Of a site: the shipped ones choose nothing. */
static const struct policy the_best = {.name = "best", .choose = {"umwait", "mwaitx", "nap"}, .choose_count = 3};

static void chooses(const struct policy_set *shipped, const struct policy_support *lacking)
{
	struct policy_set *set = malloc(sizeof(*set));
	struct policy_support full = {.rungs = ~0u};
	struct policy_use use;

	*set = *shipped;
	set->policy[set->count++] = the_best;
	CHECK(policy_resolve(set, "best", &full, &use) && strcmp(use.used, "umwait") == 0);
	full.rungs = ~UMWAIT;
	full.why[MPIWAIT_RUNG_UMWAIT] = "no waitpkg";
	CHECK(policy_resolve(set, "best", &full, &use) && strcmp(use.used, "mwaitx") == 0 && !use.why[0]);
	CHECK(policy_resolve(set, "best", lacking, &use) && strcmp(use.used, "nap") == 0);
	free(set);
}

static void resolves(const struct policy_set *set)
{
	struct policy_support lacking = {.rungs = PAUSE | NAP | 1u << MPIWAIT_RUNG_YIELD};
	struct policy_support full = {.rungs = ~0u};
	struct policy_use use;

	lacking.why[MPIWAIT_RUNG_UMWAIT] = "no waitpkg";
	lacking.why[MPIWAIT_RUNG_MWAITX] = "no mwaitx";
	CHECK(policy_resolve(set, "nap", &lacking, &use) && strcmp(use.used, "nap") == 0 && !use.why[0]);
	CHECK(policy_resolve(set, "umwait", &lacking, &use) && strcmp(use.used, "nap") == 0);
	CHECK(strcmp(use.asked, "umwait") == 0 && strcmp(use.why, "no waitpkg") == 0);
	CHECK(policy_resolve(set, "umwait", &full, &use) && strcmp(use.used, "umwait") == 0);
	CHECK(policy_resolve(set, "mwaitx", &lacking, &use) && strcmp(use.used, "nap") == 0);
	CHECK(policy_resolve(set, "auto", &lacking, &use) && strcmp(use.used, "auto") == 0 && !use.why[0]);
	CHECK(policy_resolve(set, "nothing", &full, &use) == NULL);
	chooses(set, &lacking);
}

/* A site's own policies may point at each other; the choice ends all the same, at measuring only. */
static void survives_a_circle(void)
{
	struct policy_set *set = calloc(1, sizeof(*set));
	struct policy_support none = {.rungs = 0};
	struct policy_use use;

	set->count = 3;
	set->policy[0] = (struct policy){.name = "a", .needs = NAP, .rungs = NAP, .fallback = "b"};
	set->policy[1] = (struct policy){.name = "b", .needs = NAP, .rungs = NAP, .fallback = "a"};
	set->policy[2] = (struct policy){.name = "profile", .inject = true};
	none.why[MPIWAIT_RUNG_NAP] = "no nap";
	CHECK(policy_resolve(set, "a", &none, &use) && strcmp(use.used, "profile") == 0 &&
	      strcmp(use.why, "no nap") == 0);
	set->policy[0] = (struct policy){.name = "a", .choose = {"b", "c"}, .choose_count = 2};
	CHECK(policy_resolve(set, "a", &none, &use) && strcmp(use.why, "nothing to choose from") == 0);
	set->count = 2;
	CHECK(policy_resolve(set, "a", &none, &use) == NULL);
	free(set);
}

static void applies_the_slowdown(void)
{
	struct policy policy = {.relative_ppm = 1};
	struct options options = {.slowdown_ppm = 30000};
	struct site site = {.default_policy = "off"};

	options_apply(&options, &site, &policy);
	CHECK(policy.relative_ppm == 30000 && policy.slowdown_ppm == 0);
	policy = (struct policy){.relative_ppm = 1, .slowdown_ppm = 10000};
	options_apply(&options, &site, &policy);
	CHECK(policy.relative_ppm == 1 && policy.slowdown_ppm == 30000);
}

static void applies_polls(void)
{
	struct policy policy = {.rungs = PAUSE | NAP, .polls = true};
	struct options options = {.polls = OPTIONS_POLLS_OFF};
	struct site site = {.default_policy = "off"};
	struct cpu cpu = {.tsc_khz = 0};
	char flat[POLICY_FLAT_MAX];

	CHECK(policy_flatten(&policy, &cpu, false, false, flat, sizeof(flat)) > 0);
	CHECK_CONTAINS(flat, ";polls=1");
	options_apply(&options, &site, &policy);
	CHECK(!policy.polls);
	CHECK(policy_flatten(&policy, &cpu, false, false, flat, sizeof(flat)) > 0);
	CHECK(!strstr(flat, "polls"));
	options.polls = OPTIONS_POLLS_ON;
	options_apply(&options, &site, &policy);
	policy.rungs = 0;
	CHECK(policy.polls);
	CHECK(policy_flatten(&policy, &cpu, false, false, flat, sizeof(flat)) > 0);
	CHECK(!strstr(flat, "polls"));
}

/* Of how OpenMP threads wait: the option's word, the file's, the site's, bounded where ranks nap; keep elsewhere. */
static void settles_the_threads(void)
{
	static const struct {
		uint32_t rungs;
		enum site_threads option, file, site, held;
	} cases[] = {
	        {PAUSE | NAP, 0, 0, 0, SITE_THREADS_BOUNDED},
	        {PAUSE | 1u << MPIWAIT_RUNG_EVENT, 0, 0, 0, SITE_THREADS_BOUNDED},
	        {PAUSE | UMWAIT, 0, 0, 0, SITE_THREADS_KEEP},
	        {0, 0, 0, 0, SITE_THREADS_KEEP},
	        {0, 0, 0, SITE_THREADS_PASSIVE, SITE_THREADS_KEEP},
	        {PAUSE | NAP, 0, 0, SITE_THREADS_KEEP, SITE_THREADS_KEEP},
	        {PAUSE | UMWAIT, 0, 0, SITE_THREADS_BOUNDED, SITE_THREADS_BOUNDED},
	        {PAUSE | NAP, 0, SITE_THREADS_PASSIVE, SITE_THREADS_KEEP, SITE_THREADS_PASSIVE},
	        {0, SITE_THREADS_BOUNDED, 0, 0, SITE_THREADS_BOUNDED},
	        {PAUSE | NAP, SITE_THREADS_KEEP, SITE_THREADS_PASSIVE, SITE_THREADS_BOUNDED, SITE_THREADS_KEEP},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy policy = {.rungs = cases[i].rungs, .threads = cases[i].file};
		struct options options = {.threads = cases[i].option};
		struct site site = {.threads = cases[i].site};

		options_apply(&options, &site, &policy);
		CHECK(policy.threads == cases[i].held);
	}
}

int main(void)
{
	struct policy_set *set = calloc(1, sizeof(*set));
	struct error error = {""};

	policy_load("/nonexistent", MPIWAIT_POLICIES, NULL, set, &error);
	parses();
	probes();
	refuses();
	resolves(set);
	survives_a_circle();
	applies_the_slowdown();
	settles_the_threads();
	applies_polls();
	free(set);
	return CHECK_RESULT;
}
