/*
 * Saving feed: reads the energy counters around looks of a step's ranks, for spank/energy/saving.h. It finds the looks
 * by the node's clock and what the ranks tell, as they do (preload/contract/looks.h).
 *
 * The sampler's thread calls saving_feed_step whenever something is due: six times for a look. However much that costs,
 * it is a thousandth of a CPU: the dearer it is, the rarer are the looks that are read. A look in which a reading was
 * late, or in which the ranks said something else than before, is left out.
 */
#pragma once

#include <stdint.h>

#include "spank/base/ration.h"
#include "spank/energy/look.h"
#include "spank/energy/saving.h"
#include "spank/machine/rapl.h"
#include "spank/node/look_ranks.h"

#define SAVING_FEED_NEVER UINT64_MAX

/* Zeros at first, but for what the caller sets. */
struct saving_feed {
	/* The caller's, borrowed; a segment of -1 or no counters: there is nothing to feed. */
	int segment;
	const struct rapl *rapl;
	struct shared_ration *ration;

	struct saving sums;
	uint64_t due_ns;   /* CLOCK_MONOTONIC of the next reading; SAVING_FEED_NEVER: no look is known */
	uint64_t free_ns;  /* no look is read before */
	uint64_t cost_ns;  /* CPU time since then */
	uint64_t ahead_ns; /* the node's clock less CLOCK_MONOTONIC when the look was found */
	struct look look;
	struct look_ranks found;               /* by which the look was found */
	struct look_ranks ranks[LOOK_MOMENTS]; /* as they were then, of LOOK_INSIDE and later */
};

/* Finds the next look, if none is due: in the first tick, and in each as long as the ranks do not look together. */
void saving_feed_find(struct saving_feed *feed);

/* Takes the reading that is due. */
void saving_feed_step(struct saving_feed *feed);
