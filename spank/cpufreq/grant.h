/*
 * The grant: the ranks of each task may have the frequency of the task's own cores lowered while they wait, until the
 * task ends. This module and the one that binds tasks are the only two that change the machine.
 *
 *     grant      the permission of a step's tasks, with all that serves it: one per step and node
 *     allotment  the table behind it: which of the step's frequency domains is granted to which task (allotment.h)
 *     portion    one domain in that table
 *     loan       the step's right to change a domain, noted on disk, which another step may take (loan.h)
 *     holder     the step whose slurmstepd has the loan of a domain (domain_file.h)
 *     lease      a core's low frequency, for as long as the rank that waits there goes on asking (lease.h)
 *
 * The allotment (allotment.h) belongs to one thread, the broker's, which grant_prepare starts. The functions below give
 * that thread orders, and wait for it a bounded time. So they may also be called in a child that shares slurmstepd's
 * memory, as SlurmdParameters=contain_spank does. Which tasks have a grant is on a page that slurmstepd shares with the
 * tasks until their exec.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/base/error.h"
#include "spank/cpufreq/allotment.h"

#define GRANT_TEXT_MAX 160 /* bytes of grant_describe's text, its NUL included */

struct grant_config {
	uint32_t local_tasks;            /* number of the step's tasks on this node */
	const struct topology *topology; /* the caller's; it outlives the grant */
	const char *step_cores;          /* Slurm's list of the step's cores; it outlives the grant */
	int segment;                     /* descriptor of the step's stats segment; -1: none */
	struct allotment_rules rules;
};

struct grant;

/*
 * Makes what the tasks inherit, takes the step's frequency domains from their holders, and starts the thread. Called in
 * slurmstepd before it forks the tasks and applies --cpu-freq. Returns 0, with *ret_grant for grant_end to free, or
 * -errno. *ret_grant may be set on failure too: it then tells the record why nothing is granted.
 */
int grant_prepare(const struct grant_config *config, struct grant **ret_grant, struct error *error);

/*
 * Adds a task, which is bound and is blocked before its exec. After the last task, has the thread decide what is
 * granted, ten seconds at most, and serve requests. Returns 0 or -errno; either may have a message for the log in
 * error.
 */
int grant_task(struct grant *grant, uint32_t local_task, pid_t pid, struct error *error);

/*
 * Writes what MPI_WAIT_CONFIG says of the grant: ";cpufreq=...", or "" for none. Called in the task, it has the board's
 * descriptor inherited across exec.
 */
void grant_describe(struct grant *grant, uint32_t local_task, char text[GRANT_TEXT_MAX]);

/* Restores the domains of a task that has ended, before Slurm resets --cpu-freq. Waits a second at most. */
void grant_end_task(struct grant *grant, uint32_t local_task);

/*
 * Returns the grant's part of the record: how many cores were granted, why others were not, and how they were used:
 *   {"mode": "lease", "cores": 2, "refused": {"no cpufreq": 1}, "transitions": 8, "low_us": 1000000}
 * Returns NULL for grant NULL, for a batch step's lease that no rank has used, and without memory.
 */
json_t *grant_to_json(struct grant *grant);

/*
 * Restores all domains, ends the thread, and frees the grant, which may be NULL. Waits a second at most, less what
 * grant_end_task has waited in vain. A thread that does not end keeps its domains; the job's epilog restores them.
 */
void grant_end(struct grant *grant);
