/*
 * The choice of the source that a job's joules on a node come from: the first of the site's list that has counted the
 * job from its begin to its end. Pure, but that a simulated node is known by its files.
 */
#pragma once

#include <stdbool.h>

#include "spank/energy/accumulator.h"
#include "spank/node/ending.h"
#include "spank/node/state.h"

struct sources {
	bool has_powercap;
	struct energy_window powercap;
	bool has_window; /* some source has counted the job: it is window */
	struct energy_window window;
	bool is_powercap;   /* window is powercap's */
	bool includes_gpus; /* what the window counts has the node's graphics processors in it */
};

/* Fills in powercap's window, where there is one from the job's begin to its end; else the job's energy_why. */
void sources_choose(struct state_job *job, const struct ending *ending, struct sources *ret_sources);
