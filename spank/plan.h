/*
 * What we intend to do to a step: facts in, intentions out. Pure, so that slurmstepd and each task's child, which
 * cannot see one another's decisions, compute the same plan.
 */
#ifndef MPIWAIT_SPANK_PLAN_H
#define MPIWAIT_SPANK_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "spank/policy.h"
#include "spank/site.h"

enum step_kind { STEP_SRUN, STEP_BATCH, STEP_EXTERN, STEP_INTERACTIVE };

struct plan_facts {
	enum step_kind kind;
	const struct policy *policy; /* the one in use, NULL: none */
	enum site_pin pin;
	bool user_bound;
	uint32_t local_tasks;
	uint32_t cpus_per_task;
	uint32_t step_cores; /* cores allocated to the step on this node, 0: not known */
	uint32_t step_cpus;  /* their hardware threads */
};

struct plan {
	bool measure; /* energy, and a place in the record */
	bool inject;  /* tasks get the preload library */
	bool bind;    /* task i gets cores [i * cores_per_task, (i + 1) * cores_per_task) of the step's list */
	uint32_t cores_per_task;
	bool shared; /* more CPUs asked for than there are: tasks share cores */
};

void plan_make(const struct plan_facts *facts, struct plan *ret_plan);

#endif
