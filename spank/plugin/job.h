/*
 * The facts that Slurm tells about this step, as plain numbers. Only the files of this directory know spank_t.
 *
 * Reads SPANK items. The step's environment is the user's: from there comes only whether the user asked for a binding,
 * and whether Slurm gave the job shards of GPUs, which no prolog is told.
 */
#pragma once

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/base/error.h"
#include "spank/policy/plan.h"

#define JOB_CORES_MAX 1024 /* bytes into which Slurm formats a core list */

struct job {
	uint32_t job_id;
	uint32_t step_id;
	char step_name[16];
	uint32_t uid;
	uint32_t gid;
	uint32_t array_job;      /* id of the job array, 0: the job is in none */
	uint32_t array_task;     /* index of the task in the job array */
	bool gpu_shards;         /* Slurm gave the job parts of GPUs, by gres/shard */
	struct plan_facts facts; /* kind of step, numbers of tasks and CPUs, and whether the user asked for a binding */
	char job_cores[JOB_CORES_MAX];  /* cores of the job on this node, as abstract core indices: "0-3,8" */
	int word_count;                 /* words of the step's command line; 0: a script's, or not known */
	char *const *words;             /* these words, which are Slurm's */
	char step_cores[JOB_CORES_MAX]; /* cores of the step on this node, in the same form */
};

/* Reads the facts in a remote context. Returns 0, or -EINVAL if a fact that every step has is missing. */
int job_read(spank_t spank, struct job *ret_job, struct error *error);

/* Returns a number that Slurm has of this step or task, 0 if it has none. */
uint32_t job_number(spank_t spank, enum spank_item item);

/* Returns the local number of the task that the callback is about, -1 if there is none. */
int job_task(spank_t spank);
