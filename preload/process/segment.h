/*
 * Segment: the stats segment from the rank's side. Finds it, checks it, and claims a slot in it.
 *
 * Invariant: there always is a slot to write to. Without a segment, or with a bad or full one, it is a private slot
 * that nobody reads: waiting stays cheap, and only the counts are lost.
 */
#pragma once

#include "preload/contract/stats.h"
#include "preload/process/config.h"

/*
 * Claims a slot in the configured segment, if its descriptor still is that segment or can be opened again through the
 * task that surely holds it; otherwise returns the private slot. An inherited descriptor is set close-on-exec. Called
 * once per process. Keeps errno. The mapping is permanent.
 *
 * *ret_sizes: under profile, where the slot's message sizes are counted; untouched with the private slot, which has
 * none. A configured segment that cannot be found is noted (process/notes.h).
 */
struct mpiwait_slot *segment_claim(const struct config *config, struct mpiwait_sizes **ret_sizes);

/*
 * Returns the words by which threads on the first `count` CPUs ask for their core's frequency (contract/lease.h), or
 * NULL without a segment. May change errno. The mapping is permanent.
 */
uint64_t *segment_words(const struct config *config, uint32_t count);

/* The segment, opened once more to read what all its ranks claim. */
struct segment_view {
	int fd;
	bool opened;
	uint32_t slots; /* slots that were claimed, at most as many as there are */
	uint32_t slot_count;
};

/* Opens the view. Returns false without a good segment. May change errno. segment_view_close ends it. */
bool segment_view_open(const struct config *config, struct segment_view *ret_view);
void segment_view_close(const struct segment_view *view);

/* Maps a part of the segment for reading; NULL: it cannot be mapped. segment_unmap ends it. */
const struct mpiwait_slot *segment_view_slot(const struct segment_view *view, uint32_t index);
const struct mpiwait_sizes *segment_view_sizes(const struct segment_view *view, uint32_t index);
void segment_unmap(const void *part, size_t size);

/* Returns the header of the segment that the slot lies in, or a private one. Keeps errno. The mapping is permanent. */
struct mpiwait_header *segment_header(const struct config *config, const struct mpiwait_slot *slot);

/* Returns the private header: its rank is alone on its node. */
struct mpiwait_header *segment_header_private(void);

/* Returns the private slot. */
struct mpiwait_slot *segment_private(void);
