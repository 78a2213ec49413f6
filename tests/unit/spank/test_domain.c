/* What may be done to a frequency domain: which file, which values, or why not. */
#include "spank/cpufreq/domain.h"
#include "tests/lib/check.h"

#define SETSPEED CPUFREQ_SETSPEED
#define MAX      CPUFREQ_MAX
#define LEASE    SITE_GRANT_LEASE
#define KEEP     SITE_GOVERNOR_KEEP
#define USER     SITE_GOVERNOR_USERSPACE

static const struct {
	const char *what;
	struct domain domain;
	struct domain_rules rules;
	struct domain_use use;
	const char *why;
} cases[] = {
        {"intel_pstate",
         {"intel_pstate", "powersave", false, 800000, 3500000, 800000, 3500000, 0},
         {LEASE, USER, 0, false},
         {MAX, false, 800000, 3500000},
         NULL},
        {"a governor that is kept",
         {"acpi-cpufreq", "schedutil", true, 1000000, 2400000, 1000000, 2400000, 0},
         {LEASE, KEEP, 0, false},
         {MAX, false, 1000000, 2400000},
         NULL},
        {"a governor that may be set",
         {"acpi-cpufreq", "schedutil", true, 1000000, 2400000, 1000000, 2400000, 0},
         {LEASE, USER, 0, false},
         {SETSPEED, true, 1000000, 2400000},
         NULL},
        {"a governor that the user has chosen",
         {"acpi-cpufreq", "schedutil", true, 1000000, 2400000, 1000000, 1600000, 0},
         {LEASE, USER, 0, true},
         {MAX, false, 1000000, 1600000},
         NULL},
        {"a frequency that the user has chosen",
         {"acpi-cpufreq", "userspace", true, 1000000, 2400000, 1000000, 2400000, 1600000},
         {LEASE, KEEP, 0, true},
         {SETSPEED, false, 1000000, 1600000},
         NULL},
        {"the site's least frequency",
         {"amd-pstate-epp", "powersave", false, 400000, 3700000, 400000, 3700000, 0},
         {LEASE, KEEP, 1200000, false},
         {MAX, false, 1200000, 3700000},
         NULL},
        {"a least frequency that somebody has set",
         {"intel_cpufreq", "schedutil", true, 800000, 3500000, 2000000, 3500000, 0},
         {LEASE, KEEP, 1200000, false},
         {MAX, false, 2000000, 3500000},
         NULL},
        {"nothing below",
         {"intel_cpufreq", "schedutil", true, 800000, 3500000, 800000, 1200000, 0},
         {LEASE, KEEP, 1200000, false},
         {MAX, false, 0, 0},
         "no frequency below the present one is allowed"},
        {"a driver of another kind",
         {"tegra194", "schedutil", true, 800000, 3500000, 800000, 3500000, 0},
         {LEASE, KEEP, 0, false},
         {MAX, false, 0, 0},
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
			CHECK(!why && use.file == cases[i].use.file);
			CHECK(use.sets_governor == cases[i].use.sets_governor);
			CHECK(use.low_khz == cases[i].use.low_khz && use.high_khz == cases[i].use.high_khz);
		}
		if (check_failures != before)
			fprintf(stderr, "  in case '%s'\n", cases[i].what);
	}
	return CHECK_RESULT;
}
