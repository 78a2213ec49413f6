/* One step on one node, in slurmstepd, from its start to its end. Each task works on a forked copy. */
#pragma once

#include <slurm/spank.h>

#include "spank/policy/site.h"

struct step;

/*
 * Decides which policy holds for this step and prepares the plan, the stats segment, the node state and the sampler.
 * option is the text in the launch message, NULL for none. A part that fails is logged once and left out. Returns what
 * step_end frees, NULL if no policy holds.
 */
struct step *step_begin(spank_t spank, const struct site *site, const char *option);

/* For the functions below, step may be NULL. */

/*
 * Binds the task that the callback is about, if the plan says so, and grants it a say in its cores' frequency. Called
 * in slurmstepd while the task is blocked before its exec.
 */
void step_bind_task(struct step *step, spank_t spank);

/*
 * Removes an outer step's entries from the task's environment, and sets ours if the plan says so. Called in the task.
 */
void step_inject_task(const struct step *step, spank_t spank);

/* Ends the task's part of the grant. Called in slurmstepd when the task that the callback is about has ended. */
void step_end_task(struct step *step, spank_t spank);

/* Stops the sampler, which writes the step's sums, ends the grant, and frees the step. */
void step_end(struct step *step);
