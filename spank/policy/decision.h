/*
 * Decides on the node which policy a step runs under: the strongest value that is valid and allowed, adapted to what
 * this host supports.
 *
 * In order of strength: plugstack default < policy of the program < MPI_WAIT_POLICY of the submitter < sbatch's option
 * < srun's option. In a job submitted from another job, the outer job's option stands below MPI_WAIT_POLICY
 * (client_forget_outer_job). Slurm itself hands the options on; the client promotes MPI_WAIT_POLICY to the job
 * (client.h). The submitting command has checked the values, but a user can forge them, so they are checked again. A
 * wrong value counts as none.
 */
#pragma once

#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/policy/choices.h"
#include "spank/policy/options.h"
#include "spank/policy/policy.h"
#include "spank/policy/site.h"

/* Values from the strongest to the weakest. NULL or "": not given. */
struct decision_sources {
	const char *option;      /* this step's option */
	const char *environment; /* this step's MPI_WAIT_POLICY */
	const char *job;         /* the value under which the whole job runs */
	bool by_program;         /* programs= counts: this is a step with programs of the user's */
	int word_count;          /* words of the step's command line; 0: it does not tell the program */
	char *const *words;
};

struct decision {
	char text[OPTIONS_TEXT_MAX]; /* the value that won */
	struct options options;
	struct policy policy; /* the policy in use, with the options applied */
	struct cpu cpu;
	struct policy_use use;
	struct choices *choices; /* policies from which ranks choose by their program, the caller frees; NULL: none */
	bool is_unnoted; /* the step is under "off" and leaves no record, unless a rank chooses another policy */
};

/*
 * Decides. Returns 1 with *ret_decision if the step runs under a policy, 0 if it does not, or -ENOMEM. "off" counts as
 * a policy if ranks may choose another one, or if its energy is to be recorded: the job, step or program asked for it,
 * and either the site records all jobs (record=all) or the step's job runs under another policy. Files that do not
 * parse and values that are not valid are skipped; error says which, for the log.
 *
 * The site's file of policies by program is read only if no user's word holds. If the command line tells the program,
 * its policy is the step's. A rank still chooses by the names that stand in the file before the one that matched: the
 * program may be a script that runs others.
 */
int decision_make(const struct site *site, const struct decision_sources *sources, struct decision *ret_decision,
                  struct error *error);
