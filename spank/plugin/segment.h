/*
 * Makes the stats segment of a step (preload/stats.h): a memfd that is owned by the job's user, sealed against changing
 * its size, which the step's tasks inherit on a high descriptor number.
 */
#pragma once

#include <stdint.h>

#include "spank/base/error.h"

struct segment {
	int descriptor; /* slurmstepd's, close-on-exec */
	uint64_t device;
	uint64_t inode;
};

/*
 * Creates a segment with room for MPIWAIT_SLOTS_MAX ranks: a step may run many programs, one after another. Only what
 * is written takes memory. Returns 0 with ret_segment->descriptor owned by the caller, or negative errno.
 */
int segment_create(uint32_t uid, uint32_t gid, struct segment *ret_segment, struct error *error);

/*
 * In the task, before exec: a descriptor of the segment that stays open (descriptor.h). Returns it or negative errno.
 */
int segment_hand_down(const struct segment *segment, struct error *error);
