/* A policy as the program's half reads it: the flat string of preload/process/config.h. */
#include <errno.h>
#include <stdio.h>

#include "spank/policy/policy.h"

static size_t flatten_rungs(uint32_t rungs, char *buffer, size_t size)
{
	size_t used = 0;

	if (!rungs)
		return (size_t)snprintf(buffer, size, "none");
	for (unsigned i = 0; i < MPIWAIT_RUNG_COUNT && used < size; i++)
		if (rungs & 1u << i)
			used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? "+" : "",
			                         policy_rung_name(i));
	return used;
}

static void flatten_needs(const struct policy *policy, const struct cpu *cpu, char *buffer, size_t size)
{
	int used = 0;

	buffer[0] = '\0';
	if (policy->rungs & POLICY_RUNGS_BY_TSC && cpu->tsc_khz)
		used = snprintf(buffer, size, ";tsc_khz=%llu", (unsigned long long)cpu->tsc_khz);
	if (used > 0 && policy->rungs & 1u << MPIWAIT_RUNG_UMWAIT && cpu->waitpkg)
		used += snprintf(buffer + used, size - (size_t)used, ";umwait_max_ns=%llu;umwait_c02=%d",
		                 (unsigned long long)cpu->umwait_max_ns, cpu->umwait_c02);
	if (policy->rungs & 1u << MPIWAIT_RUNG_PSTATE)
		snprintf(buffer + used, size - (size_t)used, ";pstate_after_ns=%llu",
		         (unsigned long long)policy->pstate_after_ns);
}

int policy_flatten(const struct policy *policy, const struct cpu *cpu, bool shared, bool profile, char *buffer,
                   size_t size)
{
	char rungs[96], needs[128], slowdown[40] = "";
	int length;

	flatten_rungs(policy->rungs, rungs, sizeof(rungs));
	flatten_needs(policy, cpu, needs, sizeof(needs));
	if (policy->rungs && policy->slowdown_ppm)
		snprintf(slowdown, sizeof(slowdown), ";slowdown_ppm=%llu", (unsigned long long)policy->slowdown_ppm);
	length = snprintf(buffer, size,
	                  "v=1;rungs=%s;spin_ns=%llu;relative_ppm=%llu;absolute_ns=%llu;max_ns=%llu;rma_ns=%llu;shared="
	                  "%d;profile=%d%s%s%s%s%s",
	                  rungs, (unsigned long long)policy->spin_ns, (unsigned long long)policy->relative_ppm,
	                  (unsigned long long)policy->absolute_ns, (unsigned long long)policy->max_ns,
	                  (unsigned long long)policy->rma_ns, shared, profile, policy->ibarrier ? ";ibarrier=1" : "",
	                  policy->rungs && policy->polls ? ";polls=1" : "", policy->sites ? ";sites=1" : "", slowdown,
	                  needs);
	return length >= 0 && (size_t)length < size ? length : -ENOSPC;
}
