/*
 * Makes the stats segment of a step (preload/contract/stats.h): a memfd that the job's user owns and whose size is
 * sealed. The step's tasks inherit it on a high descriptor number.
 */
#pragma once

#include <stdint.h>

#include "spank/base/error.h"

/*
 * Creates a segment with room for MPIWAIT_SLOTS_MAX ranks: a step may run many programs, one after another. Only pages
 * that are written take memory. Returns its descriptor, close-on-exec, which the caller closes, or negative errno.
 */
int segment_create(uint32_t uid, uint32_t gid, struct error *error);
