/*
 * The allotment: the frequency domains within a step's cores, which of its tasks each is granted to, and why not.
 *
 * Slurm's abstract cores become CPUs by hwloc, and are checked against where the tasks may really run; plan_share
 * decides; what it decides is granted. Used by one thread at a time.
 */
#pragma once

#include <hwloc.h>
#include <sys/types.h>

#include "spank/base/error.h"
#include "spank/base/run_directory.h"
#include "spank/cpufreq/domain.h"
#include "spank/cpufreq/loan.h"
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
	bool shared;       /* Slurm may give the job's cores to another one too; */
	bool alone;        /* Slurm says that it does not: where other jobs are not seen, nobody has to be looked for */
	bool has_launcher; /* the ranks are several processes below one task: mpirun's, in a batch step */
};

/* A domain. What follows why is of whoever changes its frequency. */
struct share {
	hwloc_bitmap_t cpus;
	struct loan loan;         /* its hold.change.use is what was granted, */
	int32_t task;             /* to whom; -1: not granted */
	char why[DOMAIN_WHY_MAX]; /* not; in a few words for the record */
	bool is_over;             /* given back, or lost to another step */
	bool is_low;
	uint64_t since_ns;
	uint64_t until_ns; /* it comes back by itself */
	uint32_t changes;  /* of its frequency, both ways */
	pid_t process;     /* of the task's, which had it low last; 0: none */
};

struct allotment {
	const struct allotment_rules *rules;
	uint32_t core_count; /* of the machine */
	uint32_t cpu_count;
	struct plan_cpu *cpu; /* by number */
	hwloc_bitmap_t step_cpus;
	bool is_doubtful; /* a task runs nowhere near the step's cores: the mapping must be wrong */
	struct share *share;
	size_t share_count;
	struct neighbours *neighbours; /* NULL: no other job can have a core */
	struct record_grant record;    /* how many cores were granted, and why not the others */
	const char *none;              /* why nothing will be granted; NULL */
};

/* Maps the step's cores. rules outlive it. Returns 0 or negative errno; allotment_end in any case. */
int allotment_init(struct allotment *allotment, const struct allotment_rules *rules, const struct topology *topology,
                   const char *step_cores, struct error *error);

/*
 * Before Slurm reads or sets a frequency of this step: takes the domains that lie within the step's cores from whoever
 * had them, so that what Slurm and we find is what nobody of ours has changed. Returns 0, or negative errno where
 * nothing will be granted.
 */
int allotment_take(struct allotment *allotment, struct error *error);

/* A task's affinity, as it will begin with. */
void allotment_add_task(struct allotment *allotment, uint32_t local_task, hwloc_const_bitmap_t affinity);

/*
 * When all tasks are there: decides, writes down, sets governors and owners, and gives back what was granted to nobody.
 * Returns 0 also where nothing was granted, or negative errno. What one domain could not have is in error too.
 */
int allotment_grant(struct allotment *allotment, struct error *error);

/* Undoes what is left, and frees what the allotment points to. */
void allotment_end(struct allotment *allotment, struct error *error);
