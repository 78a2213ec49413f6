/*
 * Segment: the stats segment from the rank's side. Finds it, checks it, and claims a slot in it.
 *
 * Invariant: there always is a slot to write to. Without a segment, or with a bad or full one, it is a private slot
 * that nobody reads: waiting stays cheap, and only the counts are lost.
 */
#pragma once

#include "preload/process/config.h"
#include "preload/stats.h"

/*
 * Claims a slot in the configured segment, if its descriptor still is that segment or can be opened again through the
 * task that surely holds it; otherwise returns the private slot. An inherited descriptor is set close-on-exec. Called
 * once per process. Keeps errno. The mapping is permanent.
 *
 * *ret_sizes: under profile, where the slot's message sizes are counted; untouched with the private slot, which has
 * none. A configured segment that cannot be found is noted (notes.h).
 */
struct mpiwait_slot *segment_claim(const struct config *config, struct mpiwait_sizes **ret_sizes);

/*
 * Returns the words by which threads on the first `count` CPUs ask for their core's frequency (lease.h); NULL without a
 * segment. May change errno. The mapping is permanent.
 */
uint64_t *segment_words(const struct config *config, uint32_t count);

/* Returns the private slot. */
struct mpiwait_slot *segment_private(void);
