/*
 * What Slurm says of this step, as plain numbers. With plugin and inject, one of the three modules that know spank_t.
 *
 * SPANK items are read, and of the step's environment, which is the user's, only whether the user asked for a binding.
 */
#pragma once

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/base/error.h"
#include "spank/policy/plan.h"

#define JOB_CORES_MAX 1024 /* Slurm formats core lists into that many bytes */

struct job {
	uint32_t job_id;
	uint32_t step_id;
	char step_name[16];
	uint32_t uid;
	uint32_t gid;
	uint32_t array_job;             /* 0: no array */
	uint32_t array_task;            /* of array_job */
	struct plan_facts facts;        /* kind, numbers of tasks and CPUs, and whether the user asked for a binding */
	char job_cores[JOB_CORES_MAX];  /* abstract core indices, "0-3,8" */
	char step_cores[JOB_CORES_MAX]; /* likewise */
};

/* Reads the facts in a remote context. Returns 0, or -EINVAL when a fact that every step has is missing. */
int job_read(spank_t spank, struct job *ret_job, struct error *error);

/* A number that Slurm has of this step or task; 0 where it has none. */
uint32_t job_number(spank_t spank, enum spank_item item);

/* The local number of the task that spank speaks of; -1: none. */
int job_task(spank_t spank);
