/*
 * The allotment: the frequency domains within a step's cores, the task to which each is granted, or why it is not.
 *
 * hwloc maps Slurm's abstract cores to CPUs, and the tasks' affinity shows whether that map is right. plan_owners then
 * decides which task gets which domain. One thread at a time may use an allotment.
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
	struct run_directory run_directory;
	uint32_t job_id;
	uint32_t step_id;
	uint32_t uid;
	uint32_t gid;
	struct domain_rules domain;
	bool shared;       /* Slurm may give the job's cores to another job too */
	bool alone;        /* Slurm gives them to no other job; this is relied on if other jobs cannot be seen */
	bool has_launcher; /* a launcher, such as mpirun in a batch step, starts several ranks below one task */
};

/* One frequency domain of the step. grant.c writes the members from is_over on, when it changes the frequency. */
struct portion {
	hwloc_bitmap_t cpus;
	struct loan loan;         /* hold.change.use has the frequencies that were granted */
	int32_t task;             /* local number of the task that has the grant; -1: not granted */
	char why[DOMAIN_WHY_MAX]; /* why it is not granted, in a few words for the record */
	struct domain_use use;    /* the frequencies, if why is "" */
	bool is_over;             /* the domain was given back, or lost to another step */
	bool is_low;              /* the domain has the low frequency */
	uint64_t since_ns;        /* when is_low last changed */
	uint64_t until_ns;        /* when a low domain is restored, unless it is asked for again before */
	uint32_t changes;         /* how often the frequency was changed, both ways */
	pid_t process;            /* the process of the task that lowered it last; 0: none */
};

struct allotment {
	const struct allotment_rules *rules;
	uint32_t core_count;  /* cores of this machine */
	uint32_t cpu_count;   /* numbers of this machine's CPUs are below this */
	struct plan_cpu *cpu; /* by the CPU's number */
	hwloc_bitmap_t step_cpus;
	bool is_doubtful; /* a task may run on none of the step's cores, so the map of cores must be wrong */
	struct portion *portion;
	size_t portion_count;
	struct neighbours *neighbours; /* NULL: no other job can have a core */
	struct record_grant record;    /* how many cores were granted, and why the others were not */
	const char *none;              /* why nothing is granted; NULL: something may be */
};

/*
 * Maps the step's cores to CPUs. `rules` must outlive the allotment. Returns 0 or -errno; the caller calls
 * allotment_end in either case.
 */
int allotment_init(struct allotment *allotment, const struct allotment_rules *rules, const struct topology *topology,
                   const char *step_cores, struct error *error);

/*
 * Takes the domains that lie within the step's cores from the steps that hold them, which restores them. The caller
 * does this before Slurm reads or sets a frequency for this step, so that neither finds what an earlier step left.
 * Returns 0, or -errno if nothing will be granted.
 */
int allotment_take(struct allotment *allotment, struct error *error);

/* Adds a task, with the affinity that it begins with. */
void allotment_add_task(struct allotment *allotment, uint32_t local_task, hwloc_const_bitmap_t affinity);

/*
 * Decides, after the last task was added, which domains are granted. Notes each of them on disk, gives its file to the
 * job's user (grant=file), and gives back the others. Returns 0, also if nothing was granted, or -errno. Errors of
 * single domains are in `error` too.
 */
int allotment_grant(struct allotment *allotment, struct error *error);

/* Restores and gives back the domains that are left, and frees what the allotment points to. */
void allotment_end(struct allotment *allotment, struct error *error);
