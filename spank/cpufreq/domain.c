#include "spank/cpufreq/domain.h"

#include <string.h>

#include "spank/base/proc.h"
#include "spank/base/text.h"

/* Drivers whose files this program knows how to change. The domains of any other driver are not granted. */
#define DRIVERS "acpi-cpufreq intel_cpufreq intel_pstate amd-pstate amd-pstate-epp"

/* Reads the hardware's frequencies. Returns their number, 0 if the driver has no such list. */
static uint32_t available_read(int policy_directory, uint32_t ret_khz[DOMAIN_AVAILABLE_MAX])
{
	char line[4096], *rest = line, *word; /* a page, the most that a file of sysfs has */
	uint32_t count = 0;

	if (proc_line_read(policy_directory, "scaling_available_frequencies", line, sizeof(line)) <= 0)
		return 0;
	while (count < DOMAIN_AVAILABLE_MAX && (word = strsep(&rest, " ")))
		count += cpufreq_khz_parse(word, &ret_khz[count]);
	return count;
}

bool domain_read(int policy_directory, struct domain *ret_domain)
{
	struct domain domain;

	if (cpufreq_read_text(policy_directory, "scaling_driver", domain.driver) ||
	    cpufreq_read_khz(policy_directory, "cpuinfo_min_freq", &domain.info_min_khz) ||
	    cpufreq_read_khz(policy_directory, "cpuinfo_max_freq", &domain.info_max_khz) ||
	    cpufreq_read_khz(policy_directory, "scaling_min_freq", &domain.min_khz) ||
	    cpufreq_read_khz(policy_directory, CPUFREQ_MAX, &domain.max_khz))
		return false;
	domain.available = available_read(policy_directory, domain.available_khz);
	*ret_domain = domain;
	return true;
}

static uint32_t max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* Returns the lowest frequency from `khz` on that the hardware has; `most` if it has none below that. */
static uint32_t available_from(const struct domain *domain, uint32_t khz, uint32_t most)
{
	uint32_t lowest = domain->available ? most : khz;

	for (uint32_t i = 0; i < domain->available; i++)
		if (domain->available_khz[i] >= khz && domain->available_khz[i] < lowest)
			lowest = domain->available_khz[i];
	return lowest;
}

const char *domain_decide(const struct domain *domain, const struct domain_rules *rules, struct domain_use *ret_use)
{
	struct domain_use use = {.high_khz = domain->max_khz};

	if (text_find(DRIVERS, ' ', domain->driver) < 0)
		return "cpufreq driver not known";
	use.low_khz = max(max(rules->min_khz, domain->info_min_khz), domain->min_khz);
	use.low_khz = available_from(domain, use.low_khz, use.high_khz);
	if (use.low_khz >= use.high_khz)
		return "no frequency below the present one is allowed";
	*ret_use = use;
	return NULL;
}
