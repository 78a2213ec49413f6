/*
 * The allotment: which task of a step gets a say in the frequency of which cores, and why not of the others.
 *
 * Slurm's abstract cores become CPUs by hwloc, and are checked against where the tasks may really run; plan_share
 * decides; what it decides is granted. Used by one thread at a time.
 */
#pragma once

#include <hwloc.h>

#include "spank/base/error.h"
#include "spank/base/run_directory.h"
#include "spank/cpufreq/domain.h"
#include "spank/cpufreq/holdings.h"
#include "spank/machine/neighbours.h"
#include "spank/machine/topology.h"
#include "spank/policy/plan.h"
#include "spank/record/parts/grant.h"

struct allotment_rules {
	struct state_place place;
	uint32_t job_id;
	uint32_t step_id;
	uint32_t uid;
	uint32_t gid;
	struct domain_rules domain;
	bool shared;       /* Slurm may give the job's cores to another one too */
	bool has_launcher; /* the ranks are several processes below one task: mpirun's, in a batch step */
};

struct allotment {
	size_t cpu_count;
	struct plan_cpu *cpu; /* by number */
	hwloc_bitmap_t step_cpus;
	bool is_doubtful; /* a task runs nowhere near the step's cores: the mapping must be wrong */
	struct holdings holdings;
	struct neighbours *neighbours;
	struct record_grant record; /* how many cores were granted, and why not the others */
	const char *none;           /* why nothing will be granted; NULL */
};

/* Maps the step's cores. Returns 0 or negative errno; allotment_end in any case. */
int allotment_init(struct allotment *allotment, const struct topology *topology, uint32_t job_id,
                   const char *step_cores, struct error *error);

/*
 * Before Slurm reads or sets a frequency of this step: takes the domains that lie within the step's cores from whoever
 * had them, so that what Slurm and we find is what nobody of ours has changed. Returns 0, or negative errno where
 * nothing will be granted.
 */
int allotment_take(struct allotment *allotment, const struct allotment_rules *rules, struct error *error);

/* A task's affinity, as it will begin with. */
void allotment_add_task(struct allotment *allotment, uint32_t local_task, hwloc_const_bitmap_t affinity);

/*
 * When all tasks are there: decides, writes down, sets governors and owners, and gives back what was granted to nobody.
 * Returns 0 also where nothing was granted, or negative errno. What one domain could not have is in error too.
 */
int allotment_grant(struct allotment *allotment, const struct allotment_rules *rules, struct error *error);

/*
 * The core around a CPU, and the CPUs that share its frequency. Returns the task that it was granted to, or -1 where
 * it, or a part of it, was granted to none.
 */
int32_t allotment_find_core(const struct allotment *allotment, uint32_t cpu, hwloc_bitmap_t ret_core,
                            hwloc_bitmap_t ret_domains);

/* Undoes what is left, and frees what the allotment points to. */
void allotment_end(struct allotment *allotment, struct error *error);
