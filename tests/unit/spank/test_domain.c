/* Tests what a step may do to a frequency domain: which values it may write, or why none. */
#include "spank/cpufreq/domain.h"
#include "tests/lib/check.h"

#define LEASE SITE_GRANT_LEASE

static const struct {
	const char *what;
	struct domain domain;
	struct domain_rules rules;
	struct domain_use use;
	const char *why;
} cases[] = {
        {"intel_pstate",
         {"intel_pstate", 800000, 3500000, 800000, 3500000, 0, {0}},
         {LEASE, 0},
         {800000, 3500000},
         NULL},
        {"a limit that the user has chosen",
         {"acpi-cpufreq", 1000000, 2400000, 1000000, 1600000, 0, {0}},
         {LEASE, 0},
         {1000000, 1600000},
         NULL},
        {"the site's least frequency",
         {"amd-pstate-epp", 400000, 3700000, 400000, 3700000, 0, {0}},
         {LEASE, 1200000},
         {1200000, 3700000},
         NULL},
        {"a least frequency that somebody has set",
         {"intel_cpufreq", 800000, 3500000, 2000000, 3500000, 0, {0}},
         {LEASE, 1200000},
         {2000000, 3500000},
         NULL},
        {"the hardware's next frequency above the site's least one",
         {"acpi-cpufreq", 1500000, 3200000, 1500000, 2450000, 3, {2450000, 1800000, 1500000}},
         {LEASE, 1600000},
         {1800000, 2450000},
         NULL},
        {"no limit, and the lowest of the list",
         {"acpi-cpufreq", 1500000, 3200000, 1500000, 2450000, 3, {2450000, 1800000, 1500000}},
         {LEASE, 0},
         {1500000, 2450000},
         NULL},
        {"nothing of the list between the site's least one and the present one",
         {"acpi-cpufreq", 1500000, 3200000, 1500000, 2450000, 3, {2450000, 1800000, 1500000}},
         {LEASE, 1900000},
         {0, 0},
         "no frequency below the present one is allowed"},
        {"nothing below",
         {"intel_cpufreq", 800000, 3500000, 800000, 1200000, 0, {0}},
         {LEASE, 1200000},
         {0, 0},
         "no frequency below the present one is allowed"},
        {"a driver of another kind",
         {"tegra194", 800000, 3500000, 800000, 3500000, 0, {0}},
         {LEASE, 0},
         {0, 0},
         "cpufreq driver not known"},
};

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct domain_use use = {.low_khz = 77};
		const char *why = domain_decide(&cases[i].domain, &cases[i].rules, &use);
		int before = check_failures;

		if (cases[i].why) {
			CHECK(why && strcmp(why, cases[i].why) == 0 && strlen(why) < DOMAIN_WHY_MAX);
			CHECK(use.low_khz == 77);
		} else {
			CHECK(!why);
			CHECK(use.low_khz == cases[i].use.low_khz && use.high_khz == cases[i].use.high_khz);
		}
		if (check_failures != before)
			fprintf(stderr, "  in case '%s'\n", cases[i].what);
	}
	return CHECK_RESULT;
}
