/*
 * One step on one node, in slurmstepd: everything between its start and its end. The tasks' children work on their
 * copy.
 */
#pragma once

#include <slurm/spank.h>

#include "spank/policy/site.h"

struct step;

/*
 * Decides which policy holds for this step and prepares what it needs: plan, stats segment, node state, sampler.
 * option is what the launch message said, NULL for nothing. Whatever fails is logged once and left out.
 * Returns NULL where no policy holds, else what step_end frees.
 */
struct step *step_begin(spank_t spank, const struct site *site, const char *option);

/* For the functions below, step may be NULL. */

/* In slurmstepd, for the task that spank speaks of, which is blocked before its exec: binds it if the plan says so,
 * and lets it have a say in its cores' frequency. */
void step_bind_task(struct step *step, spank_t spank);

/* In the task: cleans its environment of an outer step's entries, and puts ours in if the plan says so. */
void step_inject_task(const struct step *step, spank_t spank);

/* In slurmstepd, when the task that spank speaks of has ended: ends its part of the grant. */
void step_end_task(struct step *step, spank_t spank);

/* Stops the sampler, which writes the step's sums, ends the grant, and frees everything. */
void step_end(struct step *step);
