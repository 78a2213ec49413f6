/*
 * Plans what is done to a step: facts in, intentions out. Pure, so that slurmstepd and each task's child, which cannot
 * tell each other what they decided, compute the same plan.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/policy/policy.h"
#include "spank/policy/site.h"

enum step_kind { STEP_SRUN, STEP_BATCH, STEP_EXTERN, STEP_INTERACTIVE };

struct plan_facts {
	enum step_kind kind;
	const struct policy *policy; /* the policy in use */
	enum site_pin pin;
	bool user_bound; /* the user has bound the tasks */
	uint32_t local_tasks;
	uint32_t cpus_per_task;
	uint32_t step_cores; /* cores allocated to the step on this node; 0: unknown */
	uint32_t step_cpus;  /* hardware threads of those cores */
	enum site_grant grant;
	bool threads_are_cores; /* Slurm counts hardware threads of one core as cores on this node */
	bool ranks_choose;      /* a rank may choose a policy by its program, also where the step's is "off" */
};

struct plan {
	bool inject; /* tasks get the preload library; if not, the step only leaves its energy in the record */
	bool bind;   /* task i gets cores [i * cores_per_task, (i + 1) * cores_per_task) of the step's list */
	uint32_t cores_per_task;
	bool shared;               /* tasks asked for more CPUs than there are, so they share cores */
	bool grant;                /* tasks may have the frequency of their own cores lowered */
	enum site_threads threads; /* setting for the tasks' OpenMP runtimes; keep: none is made */
};

/* Why no task may change the frequency of a CPU; numbers from 0 on are the task that may. */
enum plan_owner {
	PLAN_NOBODY = -1,      /* the CPU is not allocated to the step, or no task runs there */
	PLAN_SEVERAL = -2,     /* several tasks share its core */
	PLAN_NO_CPUFREQ = -3,  /* the kernel has no frequency to set there */
	PLAN_REACHES_OUT = -4, /* the CPU shares its frequency with CPUs that are not the task's */
	PLAN_LOOSE = -5,       /* its task may run on cores that are not allocated to the step */
};

struct plan_cpu {
	int32_t core;   /* number of its core; -1: not allocated to the step */
	int32_t domain; /* number of its frequency domain; -1: no frequency to set */
	int32_t task;   /* local number of the task that may run there, or PLAN_NOBODY, PLAN_SEVERAL, PLAN_LOOSE */
	int32_t owner;  /* result: local number of the task that gets the frequency, or enum plan_owner */
};

/* Decides what is done to a step. The rules of binding are in plan.c. */
void plan_make(const struct plan_facts *facts, struct plan *ret_plan);

/*
 * Fills in the owner of each CPU. A core is a task's own if no other task of the step may run on any of its CPUs; Slurm
 * need not have given the task all of them. A task gets a frequency domain if all of its CPUs lie in the task's own
 * cores. Returns 0 or -ENOMEM.
 */
int plan_owners(struct plan_cpu cpus[], size_t count);
