/*
 * What a task finds in its environment: our library in front of LD_PRELOAD, MPI_WAIT_CONFIG, and what its OpenMP
 * runtime is told. Nothing else of ours, and nothing that an outer step of ours left.
 */
#pragma once

#include <slurm/spank.h>
#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/cpufreq/grant.h"
#include "spank/plugin/job.h"
#include "spank/policy/policy.h"

/* Made in slurmstepd, and used in each task. */
struct injection {
	char flat[POLICY_FLAT_MAX]; /* the policy's part of MPI_WAIT_CONFIG */
	int library;                /* the open library, for tasks in containers; -1: none */
	int segment;                /* -1: none */
	struct grant *grant;        /* NULL: none */
	bool near;                  /* tell which tasks of the step are on this node */
	enum site_threads threads;  /* what OpenMP runtimes are told (openmp.h) */
	uint64_t spins;             /* the bound in turns of GNU's loop */
};

/*
 * To be called in the task itself. Takes our library out of LD_PRELOAD, and away what an outer step of ours has set and
 * nobody has changed since; then, where there is an injection, puts in what it says, and hands the segment down. error
 * says what was left out: the segment, or all of it.
 */
void inject_task(spank_t spank, const struct job *job, const struct injection *injection, struct error *error);
