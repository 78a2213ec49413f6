/*
 * What Slurm says of this step, as plain numbers. With plugin and inject, one of the three modules that know spank_t.
 *
 * SPANK items are read, and of the step's environment, which is the user's, only whether the user asked for a binding
 * or a frequency.
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
	enum step_kind kind;
	uint32_t uid;
	uint32_t gid;
	uint32_t array_job;  /* 0: no array */
	uint32_t array_task; /* of array_job */
	uint32_t nodes;
	uint32_t node_index;
	uint32_t local_tasks;
	uint32_t cpus_per_task;
	char job_cores[JOB_CORES_MAX];  /* abstract core indices, "0-3,8" */
	char step_cores[JOB_CORES_MAX]; /* likewise */
	bool user_bound;                /* --cpu-bind or something that implies it */
	bool user_frequency;            /* --cpu-freq */
};

#define JOB_NEAR_MAX 2048

/* Reads the facts in a remote context. Returns 0, or -EINVAL when a fact that every step has is missing. */
int job_read(spank_t spank, struct job *ret_job, struct error *error);

/*
 * Which tasks of a step are on this node, as the program's half reads it (";near=...", config.h), in the task itself;
 * "" where all are, where they are no ranks of one program that srun starts, and where it is too much to say.
 */
void job_near(spank_t spank, const struct job *job, char ret_near[JOB_NEAR_MAX]);

/* The user's supplementary groups, the caller's to free; none where Slurm does not say. */
void job_groups(spank_t spank, gid_t **ret_groups, size_t *ret_count);
