/* What a frequency domain is like, and what may be done to it. */
#include "spank/cpufreq/domain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/proc.h"

#define LINE_MAX_BYTES 4096 /* sysfs shows a page */

/* Wrong or doubtful means no grant: drivers are those whose files were looked at. */
static const char *const drivers[] = {"acpi-cpufreq", "intel_cpufreq", "intel_pstate", "amd-pstate", "amd-pstate-epp"};

static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
		if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
			return true;
	return false;
}

int domain_read(int policy_directory, struct domain *ret_domain)
{
	struct domain domain = {.speed_khz = 0};
	char line[LINE_MAX_BYTES];
	int rc = cpufreq_read_text(policy_directory, "scaling_driver", domain.driver);

	if (rc == 0)
		rc = cpufreq_read_text(policy_directory, "scaling_governor", domain.governor);
	if (rc == 0)
		rc = cpufreq_read_khz(policy_directory, "cpuinfo_min_freq", &domain.info_min_khz);
	if (rc == 0)
		rc = cpufreq_read_khz(policy_directory, "cpuinfo_max_freq", &domain.info_max_khz);
	if (rc == 0)
		rc = cpufreq_read_khz(policy_directory, "scaling_min_freq", &domain.min_khz);
	if (rc == 0)
		rc = cpufreq_read_khz(policy_directory, "scaling_max_freq", &domain.max_khz);
	if (rc < 0)
		return rc;
	if (proc_line_read(policy_directory, "scaling_available_governors", line, sizeof(line)) > 0)
		domain.has_userspace = list_has(line, "userspace");
	if (strcmp(domain.governor, "userspace") == 0)
		rc = cpufreq_read_khz(policy_directory, "scaling_setspeed", &domain.speed_khz);
	if (rc == 0)
		*ret_domain = domain;
	return rc;
}

int domain_read_cpus(int policy_directory, uint32_t cpus[], int max)
{
	char line[LINE_MAX_BYTES];
	ssize_t length = proc_line_read(policy_directory, "related_cpus", line, sizeof(line));
	char *at = line, *end = line;
	int count = 0;

	if (length < 0)
		return (int)length;
	while (*(at += strspn(at, " "))) {
		unsigned long cpu = strtoul(at, &end, 10);

		if (end == at || (*end && *end != ' ') || cpu >= CPUFREQ_POLICIES || count == max)
			return -EBADMSG;
		cpus[count++] = (uint32_t)cpu;
		at = end;
	}
	return count > 0 ? count : -EBADMSG;
}

static bool driver_is_known(const char *driver)
{
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		if (strcmp(drivers[i], driver) == 0)
			return true;
	return false;
}

static int refuse(char why[DOMAIN_WHY_MAX], const char *reason)
{
	snprintf(why, DOMAIN_WHY_MAX, "%s", reason);
	return -EPERM;
}

static uint32_t most_of(uint32_t left, uint32_t right)
{
	return left > right ? left : right;
}

int domain_decide(const struct domain *domain, const struct domain_rules *rules, struct domain_use *ret_use,
                  char why[DOMAIN_WHY_MAX])
{
	bool may_set = rules->governor == SITE_GOVERNOR_USERSPACE && !rules->user_has_chosen && domain->has_userspace;
	struct domain_use use = {.file = CPUFREQ_MAX, .high_khz = domain->max_khz};

	if (!driver_is_known(domain->driver))
		return refuse(why, "cpufreq driver not known");
	if (domain->speed_khz || may_set) {
		use.file = CPUFREQ_SETSPEED;
		use.sets_governor = !domain->speed_khz;
		use.high_khz = domain->speed_khz ? domain->speed_khz : domain->max_khz;
	}
	use.low_khz = most_of(most_of(rules->min_khz, domain->info_min_khz), domain->min_khz);
	if (use.low_khz >= use.high_khz)
		return refuse(why, "no frequency below the present one is allowed");
	*ret_use = use;
	return 0;
}
