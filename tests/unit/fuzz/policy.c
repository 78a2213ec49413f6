/* A policy's file, called "p.json": what is accepted, the program's half must accept and understand in the same way. */
#include "tests/unit/fuzz/fuzz.h"

#include "preload/process/config.h"
#include "spank/policy/policy.h"

static void flat_check(const struct policy *policy)
{
	struct cpu cpu = {.waitpkg = true, .mwaitx = true, .cpufreq = true, .tsc_khz = 3000000, .umwait_c02 = true};
	char flat[POLICY_FLAT_MAX];
	struct config config;
	int length = policy_flatten(policy, &cpu, false, true, flat, sizeof(flat));

	FUZZ_CHECK(length > 0 && length == (int)strlen(flat));
	FUZZ_CHECK(config_parse(flat, "", &config) == 0);
	FUZZ_CHECK(config.rungs == policy->rungs && config.spin_ns == policy->spin_ns &&
	           config.relative_ppm == policy->relative_ppm && config.absolute_ns == policy->absolute_ns &&
	           config.max_ns == policy->max_ns && config.rma_ns == policy->rma_ns);
}

/* Beside a measuring policy, on hosts that can do everything, nothing, and some. */
static void resolve_check(const struct policy *policy)
{
	static struct policy_set set = {.count = 2, .policy = {{.name = "p"}, {.name = "profile", .inject = true}}};
	struct policy_support support = {.rungs = 0};
	struct policy_use use;

	set.policy[0] = *policy;
	for (unsigned i = 0; i < MPIWAIT_RUNGS; i++)
		support.why[i] = "because";
	for (unsigned i = 0; i < 8; i++) {
		const struct policy *found;

		support.rungs = i == 0 ? UINT32_MAX : (i - 1) * 37;
		found = policy_resolve(&set, "p", &support, &use);
		FUZZ_CHECK(found && !(found->needs & ~support.rungs) && !found->choose_count);
		FUZZ_CHECK(strcmp(use.asked, "p") == 0 && strcmp(use.used, found->name) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error error = {""};
	struct policy policy;

	if (policy_parse((const char *)data, size, "p", &policy, &error) < 0) {
		FUZZ_CHECK(error.text[0]);
		return 0;
	}
	FUZZ_CHECK(!error.text[0] && strcmp(policy.name, "p") == 0 && policy.summary[0]);
	FUZZ_CHECK(fuzz_is_printable(policy.summary) && policy.choose_count <= POLICY_CHOICES_MAX);
	FUZZ_CHECK(!(policy.needs & ~policy.rungs) && !(policy.rungs & ~((1u << MPIWAIT_RUNG_COUNT) - 1)));
	flat_check(&policy);
	resolve_check(&policy);
	return 0;
}
