/*
 * Feeds the fit of watts.h. At each sample of a step: the energy of every package since the last one, and how
 * long the ranks that run there slept in MPI, spun in MPI, and computed.
 *
 * Ranks are where root finds them running, their times are their own claim (slots.h), cut to the interval. An interval
 * counts only if the package's ranks were the same ones at both ends, all between Init and Finalize and none of them
 * stopped, and its counter had no gap. Only sums are kept.
 */
#pragma once

#include "spank/energy/accumulator.h"
#include <sys/types.h>

#include "spank/energy/watts.h"
#include "spank/node/slots.h"

/* Zeros at first, but for the user. */
struct watts_feed {
	uid_t uid;         /* the job's: a process of another user is no rank */
	struct watts sums; /* so far */
	/* of the last sample */
	struct energy_snapshot snapshot; /* without zones: there was none */
	size_t count;
	struct watts_rank {
		struct slots_rank rank;
		int32_t package; /* -1: not known */
		bool usable;     /* neither stopped (scontrol suspend) nor doubtful */
	} rank[MPIWAIT_SLOTS_MAX];
};

/* One sample; the first only says where to begin. */
void watts_feed_add(struct watts_feed *feed, const struct energy_snapshot *now, const struct slots *slots);
