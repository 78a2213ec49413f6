/*
 * The grant: a say in the frequency of its own cores, for each task of a step and for no longer. With bind, one of the
 * two modules that change the machine.
 *
 * All that is granted (allotment.h) belongs to one thread, the broker's, which grant_prepare starts; the functions
 * below order it to do things, and wait for it with a bound. So they may also be called in a child that shares
 * slurmstepd's memory, as with SlurmdParameters=contain_spank. What the tasks find out is on a page that they share
 * with slurmstepd until their exec.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/base/error.h"
#include "spank/cpufreq/allotment.h"

#define GRANT_TEXT_MAX 160

struct grant_config {
	uint32_t local_tasks;
	const struct topology *topology; /* outlives the grant */
	const char *step_cores;          /* likewise */
	int segment;                     /* of the step, likewise; -1: none */
	struct allotment_rules rules;
};

struct grant;

/*
 * In slurmstepd itself, before the tasks are forked and before Slurm's --cpu-freq: what the tasks must inherit; the
 * step's cores are taken from whoever had them; the thread starts. Returns 0 with *ret_grant to be freed by grant_end,
 * or negative errno; *ret_grant may be there all the same, and will say why nothing is granted.
 */
int grant_prepare(const struct grant_config *config, struct grant **ret_grant, struct error *error);

/*
 * For a task that is blocked before its exec and bound already. With the last one everything is known: decides, grants,
 * and serves. Waits ten seconds at most. Returns 0, or negative errno with what went wrong for the log.
 */
int grant_task(struct grant *grant, uint32_t local_task, pid_t pid, struct error *error);

/*
 * In the task itself: what MPI_WAIT_CONFIG says of the grant (";cpufreq=...", "" for none), and the descriptor that
 * goes with it kept across exec.
 */
void grant_describe(struct grant *grant, uint32_t local_task, char text[GRANT_TEXT_MAX]);

/* When a task has ended: restores what was its own, before Slurm resets --cpu-freq. Waits a second at most. */
void grant_end_task(struct grant *grant, uint32_t local_task);

/*
 * What was granted and what was not, what root has seen of its use:
 *   {"mode": "lease", "cores": 2, "refused": {"no cpufreq": 1}, "transitions": 8, "low_us": 1000000}
 * NULL where there is no grant (grant NULL), where it is the lease of a batch step that nobody used, or no memory.
 */
json_t *grant_to_json(struct grant *grant);

/*
 * Ends everything, restores, and frees. grant may be NULL. Waits a second at most, together with a task's end that was
 * waited for in vain: a thread that does not end keeps what it has, which the job's epilog restores.
 */
void grant_end(struct grant *grant);
