/*
 * Makes the stats segment of a step (preload/contract/stats.h): a memfd that is owned by the job's user, sealed against
 * changing its size, which the step's tasks inherit on a high descriptor number.
 */
#pragma once

#include <stdint.h>

#include "spank/base/error.h"

/*
 * Creates a segment with room for MPIWAIT_SLOTS_MAX ranks: a step may run many programs, one after another. Only what
 * is written takes memory. Returns its descriptor, close-on-exec and the caller's, or negative errno.
 */
int segment_create(uint32_t uid, uint32_t gid, struct error *error);
