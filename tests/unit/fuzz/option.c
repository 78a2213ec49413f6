/* --mpi-wait-policy=TEXT: parsed, checked against the shipped policies, applied, and handed on to the program's half.
 */
#include "tests/unit/fuzz/fuzz.h"

#include "preload/process/config.h"
#include "spank/base/cleanup.h"
#include "spank/policy/options.h"

static const struct policy_set *shipped(void)
{
	static struct policy_set set;
	struct error error = {""};

	if (set.count == 0)
		policy_load("", MPIWAIT_POLICIES, NULL, &set, &error);
	FUZZ_CHECK(set.count > 0 && !error.text[0]);
	return &set;
}

static void apply(const struct options *options, const struct site *site)
{
	const struct policy *found = policy_find(shipped(), options->policy);
	struct cpu cpu = {.waitpkg = true, .mwaitx = true, .tsc_khz = 2000000, .umwait_max_ns = 100000};
	char flat[POLICY_FLAT_MAX];
	struct policy policy;
	struct config config;

	FUZZ_CHECK(found != NULL);
	policy = *found;
	options_apply(options, site, &policy);
	FUZZ_CHECK(policy.threads != SITE_THREADS_UNSAID);
	FUZZ_CHECK(!options->threads || policy.threads == options->threads);
	FUZZ_CHECK(policy_flatten(&policy, &cpu, true, options->profile, flat, sizeof(flat)) > 0);
	FUZZ_CHECK(config_parse(flat, "", &config) == 0);
	FUZZ_CHECK(config.relative_ppm == policy.relative_ppm && config.profile == options->profile &&
	           config.ibarrier == options->ibarrier && config.sites == options->sites);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct site sites[] = {{.default_policy = "off"},
	                                    {.default_policy = "nap", .allow = "nap,profile"}};
	cleanup_free char *text = fuzz_text(data, size);
	struct error error = {""};
	struct options options;
	int result = options_parse(text, &options, &error);

	if (result == 0) {
		FUZZ_CHECK(options.slowdown_ppm <= 500000 && strlen(options.csv) < sizeof(options.csv));
		FUZZ_CHECK(!options.csv[0] || options.profile);
		result = options_check(&options, shipped(), &sites[size % 2], &error);
		if (result == 0)
			apply(&options, &sites[size % 2]);
	}
	FUZZ_CHECK((result == 0) == (error.text[0] == '\0') && fuzz_is_printable(error.text));
	return 0;
}
