/*
 * Rules of binding. Tasks are bound only in srun steps with several local tasks that neither the user nor Slurm has
 * bound, and whose CPUs are exactly the cores allocated. A single local task may be a launcher's daemon, and keeps all
 * cores. No task gets less than Slurm gave it. If Slurm counts hardware threads as cores (CPUs= alone), no task is
 * bound: the threads of one core may belong to two jobs.
 */
#include "spank/policy/plan.h"

#include <errno.h>
#include <stdlib.h>

static bool fills_the_cores(const struct plan_facts *facts)
{
	uint64_t cpus = (uint64_t)facts->local_tasks * facts->cpus_per_task;

	return facts->step_cores > 0 && facts->step_cores % facts->local_tasks == 0 &&
	       (cpus == facts->step_cores || cpus == facts->step_cpus);
}

void plan_make(const struct plan_facts *facts, struct plan *ret_plan)
{
	bool acts = facts->policy->inject && facts->kind != STEP_EXTERN;
	struct plan plan = {.inject = acts || (facts->ranks_choose && facts->kind != STEP_EXTERN)};

	plan.bind = acts && facts->kind == STEP_SRUN && facts->pin == SITE_PIN_CORES && !facts->user_bound &&
	            facts->local_tasks > 1 && facts->cpus_per_task > 0 && !facts->threads_are_cores &&
	            fills_the_cores(facts);
	plan.cores_per_task = plan.bind ? facts->step_cores / facts->local_tasks : 0;
	plan.shared =
	        plan.inject && facts->kind == STEP_SRUN && facts->step_cpus > 0 &&
	        (uint64_t)facts->local_tasks * (facts->cpus_per_task ? facts->cpus_per_task : 1) > facts->step_cpus;
	plan.grant = acts && facts->policy->rungs & 1u << MPIWAIT_RUNG_PSTATE && facts->grant != SITE_GRANT_OFF;
	/* not for a batch script: variables of ours might outweigh those that it sets later */
	plan.threads = acts && facts->kind == STEP_SRUN ? facts->policy->threads : SITE_THREADS_UNSAID;
	*ret_plan = plan;
}

/* Returns the one task that runs on the core's CPUs, PLAN_SEVERAL or PLAN_NOBODY. */
static int32_t core_owner(const struct plan_cpu cpus[], size_t count, int32_t core)
{
	int32_t owner = PLAN_NOBODY;

	for (size_t i = 0; i < count; i++) {
		if (cpus[i].core != core || cpus[i].task == PLAN_NOBODY)
			continue;
		if (owner != PLAN_NOBODY && owner != cpus[i].task)
			return PLAN_SEVERAL;
		owner = cpus[i].task;
	}
	return owner;
}

static bool domain_is_of(const struct plan_cpu cpus[], const int32_t owners[], size_t count, int32_t domain,
                         int32_t task)
{
	for (size_t i = 0; i < count; i++)
		if (cpus[i].domain == domain && owners[i] != task)
			return false;
	return true;
}

int plan_owners(struct plan_cpu cpus[], size_t count)
{
	int32_t *owners = malloc(count * sizeof(*owners));

	if (!owners)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		owners[i] = cpus[i].core < 0 ? PLAN_NOBODY : core_owner(cpus, count, cpus[i].core);
	for (size_t i = 0; i < count; i++) {
		cpus[i].owner = owners[i];
		if (owners[i] >= 0 && cpus[i].domain < 0)
			cpus[i].owner = PLAN_NO_CPUFREQ;
		else if (owners[i] >= 0 && !domain_is_of(cpus, owners, count, cpus[i].domain, owners[i]))
			cpus[i].owner = PLAN_REACHES_OUT;
	}
	free(owners);
	return 0;
}
