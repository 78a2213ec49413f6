/*
 * Chooses the source of a job's joules on a node: the first in the site's list that counted the job from its begin to
 * its end. Pure, but for the check whether the node is simulated.
 */
#pragma once

#include <stdbool.h>

#include "spank/energy/accumulator.h"
#include "spank/node/ending.h"
#include "spank/node/state.h"

/* The chosen source, and powercap's window beside it. */
struct sources {
	bool has_powercap; /* powercap is valid */
	struct energy_window powercap;
	bool has_window; /* `window` is valid: some source counted the job */
	struct energy_window window;
	bool is_powercap;   /* `window` is powercap's */
	bool includes_gpus; /* `window` includes the node's graphics processors */
};

/* Chooses the source. Fills in powercap's window if there is one, and job->energy_why if none is chosen. */
void sources_choose(struct state_job *job, const struct ending *ending, struct sources *ret_sources);
