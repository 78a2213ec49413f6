/*
 * What we intend to do to a step: facts in, intentions out. Pure, so that slurmstepd and each task's child, which
 * cannot see one another's decisions, compute the same plan.
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
	const struct policy *policy; /* the one in use */
	enum site_pin pin;
	bool user_bound;
	uint32_t local_tasks;
	uint32_t cpus_per_task;
	uint32_t step_cores; /* cores allocated to the step on this node, 0: not known */
	uint32_t step_cpus;  /* their hardware threads */
	enum site_grant grant;
	bool threads_are_cores; /* Slurm counts hardware threads of one core as cores on this node */
};

struct plan {
	bool inject; /* tasks get the preload library; else energy, and a place in the record, are all that there is */
	bool bind;   /* task i gets cores [i * cores_per_task, (i + 1) * cores_per_task) of the step's list */
	uint32_t cores_per_task;
	bool shared;               /* more CPUs asked for than there are: tasks share cores */
	bool grant;                /* tasks may get a say in the frequency of their own cores */
	enum site_threads threads; /* what their OpenMP runtimes are told; keep: nothing */
};

/* Who may change the frequency of a CPU: the number of a task, or why nobody. */
enum plan_owner {
	PLAN_NOBODY = -1,      /* not allocated to the step, or no task runs there */
	PLAN_SEVERAL = -2,     /* tasks share that core */
	PLAN_NO_CPUFREQ = -3,  /* the kernel has no frequency to set there */
	PLAN_REACHES_OUT = -4, /* its frequency is that of CPUs which are not the task's */
	PLAN_LOOSE = -5,       /* its task may run on cores that the step was not allocated */
};

/* One CPU, as machine and step see it. */
struct plan_cpu {
	int32_t core;   /* of this machine; -1: not allocated to the step */
	int32_t domain; /* CPUs of one number share a frequency; -1: none to set */
	int32_t task;   /* local number of the one that may run there, or PLAN_NOBODY, PLAN_SEVERAL, PLAN_LOOSE */
	int32_t owner;  /* out: a task's number, or enum plan_owner */
};

void plan_make(const struct plan_facts *facts, struct plan *ret_plan);

/*
 * Decides who gets what: a core is a task's own if no other task of the step may run on any of its CPUs, whether Slurm
 * let the task have all of them or not; a frequency is granted where every CPU that has it lies in cores of one task.
 * Fills in owner. Returns 0 or -ENOMEM.
 */
int plan_share(struct plan_cpu cpus[], size_t count);
