#include "spank/cpufreq/domain.h"

#include "spank/base/text.h"

/* Drivers whose files this program knows how to change. The domains of any other driver are not granted. */
#define DRIVERS "acpi-cpufreq intel_cpufreq intel_pstate amd-pstate amd-pstate-epp"

bool domain_read(int policy_directory, struct domain *ret_domain)
{
	struct domain domain;

	if (cpufreq_read_text(policy_directory, "scaling_driver", domain.driver) ||
	    cpufreq_read_khz(policy_directory, "cpuinfo_min_freq", &domain.info_min_khz) ||
	    cpufreq_read_khz(policy_directory, "cpuinfo_max_freq", &domain.info_max_khz) ||
	    cpufreq_read_khz(policy_directory, "scaling_min_freq", &domain.min_khz) ||
	    cpufreq_read_khz(policy_directory, CPUFREQ_MAX, &domain.max_khz))
		return false;
	*ret_domain = domain;
	return true;
}

static uint32_t max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

const char *domain_decide(const struct domain *domain, const struct domain_rules *rules, struct domain_use *ret_use)
{
	struct domain_use use = {.high_khz = domain->max_khz};

	if (text_find(DRIVERS, ' ', domain->driver) < 0)
		return "cpufreq driver not known";
	use.low_khz = max(max(rules->min_khz, domain->info_min_khz), domain->min_khz);
	if (use.low_khz >= use.high_khz)
		return "no frequency below the present one is allowed";
	*ret_use = use;
	return NULL;
}
