/*
 * Which policy holds, on the node: the strongest word that is valid and allowed, applied to what this host can do.
 *
 * plugstack default < MPI_WAIT_POLICY of the submitter < sbatch's option < srun's option; for a job within a job the
 * outer job's option stands below MPI_WAIT_POLICY (client_forget_outer_job). Slurm hands the last two on
 * itself, the client promotes the second to the job (client.h); what arrives here was checked at submit, but a user can
 * forge it, so that it is checked again: a wrong word is as good as none.
 */
#pragma once

#include "spank/base/error.h"
#include "spank/policy/options.h"
#include "spank/policy/policy.h"
#include "spank/policy/site.h"

/* In order of strength; NULL or "": not given. */
struct decision_sources {
	const char *option;      /* of this step */
	const char *environment; /* the step's MPI_WAIT_POLICY */
	const char *job;         /* what held for the whole job */
};

struct decision {
	char text[OPTIONS_TEXT_MAX]; /* the words that won */
	struct options options;
	struct policy policy; /* with the options applied */
	struct cpu cpu;
	struct policy_use use;
};

/*
 * Decides. Returns 1 with *ret_decision if a policy holds, 0 if none does, -ENOMEM. "off" is one where its energy is
 * noted: the job or step said so itself, and the site records all (record=all), or it is a step of a job under another
 * policy. Files that do not parse and words that were not valid are named in error, to be logged; they stop nothing.
 */
int decision_make(const struct site *site, const struct decision_sources *sources, struct decision *ret_decision,
                  struct error *error);
