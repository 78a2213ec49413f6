/*
 * Saving feed: reads the energy counters around looks of a step's ranks, for spank/energy/saving.h. It finds the looks
 * as the ranks do (preload/contract/looks.h), from the node's clock and from what the ranks tell.
 *
 * The sampler's thread calls saving_feed_step when a reading is due: six times per look. The feed takes at most a
 * thousandth of a CPU: the more a look costs, the fewer looks are read. A look is dropped if a reading was late, or if
 * the ranks changed what they tell.
 */
#pragma once

#include <stdint.h>

#include "spank/base/ration.h"
#include "spank/energy/look.h"
#include "spank/energy/saving.h"
#include "spank/machine/rapl.h"
#include "spank/node/look_ranks.h"

#define SAVING_FEED_NEVER UINT64_MAX

/* State of the feed. Zeros at first, but for the members that the caller sets. */
struct saving_feed {
	/* Set by the caller, borrowed. With a segment of -1 or without counters nothing is fed. */
	int segment;
	const struct rapl *rapl;
	struct shared_ration *ration;

	struct saving sums; /* looks so far */
	uint64_t due_ns;    /* CLOCK_MONOTONIC of the next reading; SAVING_FEED_NEVER: no look is known */
	uint64_t free_ns;   /* CLOCK_MONOTONIC before which no look is read, which pays for the last one */
	uint64_t cost_ns;   /* CPU time spent on the current look */
	uint64_t ahead_ns;  /* CLOCK_REALTIME less CLOCK_MONOTONIC when the look was found */
	struct look look;
	struct look_ranks found;               /* the ranks' claims when the look was found */
	struct look_ranks ranks[LOOK_MOMENTS]; /* the ranks' claims at each moment, from LOOK_INSIDE on */
};

/*
 * Finds the next look unless one is due. Called at the first tick, and again at each tick while the ranks do not look
 * together.
 */
void saving_feed_find(struct saving_feed *feed);

/* Takes the reading that is due, and after the last one of a look finds the next look. */
void saving_feed_step(struct saving_feed *feed);
