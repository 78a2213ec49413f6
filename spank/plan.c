/*
 * The rules of binding: only srun steps with several local tasks that nobody has bound, where the CPUs asked for are
 * exactly the cores allocated. A single local task may be a launcher's daemon and keeps everything. Nobody gets less
 * than Slurm gave.
 */
#include "spank/plan.h"

static bool fills_the_cores(const struct plan_facts *facts)
{
	uint64_t cpus = (uint64_t)facts->local_tasks * facts->cpus_per_task;

	return facts->step_cores > 0 && facts->step_cores % facts->local_tasks == 0 &&
	       (cpus == facts->step_cores || cpus == facts->step_cpus);
}

void plan_make(const struct plan_facts *facts, struct plan *ret_plan)
{
	struct plan plan = {.measure = facts->policy && facts->policy->inject};

	plan.inject = plan.measure && facts->kind != STEP_EXTERN;
	plan.bind = plan.inject && facts->kind == STEP_SRUN && facts->pin == SITE_PIN_CORES && !facts->user_bound &&
	            facts->local_tasks > 1 && facts->cpus_per_task > 0 && fills_the_cores(facts);
	plan.cores_per_task = plan.bind ? facts->step_cores / facts->local_tasks : 0;
	plan.shared =
	        plan.inject && facts->kind == STEP_SRUN && facts->step_cpus > 0 &&
	        (uint64_t)facts->local_tasks * (facts->cpus_per_task ? facts->cpus_per_task : 1) > facts->step_cpus;
	*ret_plan = plan;
}
