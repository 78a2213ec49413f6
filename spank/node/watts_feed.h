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
#include "spank/energy/watts.h"
#include "spank/node/slots.h"

struct watts_feed;

/* NULL only without memory. Freed by watts_feed_free, which takes NULL. */
struct watts_feed *watts_feed_new(void);
void watts_feed_free(struct watts_feed *feed);

/* One sample; the first only says where to begin. */
void watts_feed_add(struct watts_feed *feed, const struct energy_snapshot *now, const struct slots *slots);

/* The sums so far, borrowed. */
const struct watts *watts_feed_sums(const struct watts_feed *feed);
