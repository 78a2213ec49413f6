/* What the numbers of one reading of a stats segment are bounded by: each of them is a claim. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/stats.h"

#define BOUNDS_COUNT_MAX UINT64_C(1000000000000000)

struct bounds {
	uint64_t begun_ns; /* CLOCK_MONOTONIC when the step began */
	uint64_t now_ns;
	bool exceeded; /* a number was cut */
};

static inline uint64_t bounded(struct bounds *bounds, uint64_t value, uint64_t most)
{
	if (value <= most)
		return value;
	bounds->exceeded = true;
	return most;
}

/* A time: no longer than the step has lasted. */
static inline uint64_t bounded_ns(struct bounds *bounds, uint64_t value)
{
	return bounded(bounds, value, bounds->now_ns - bounds->begun_ns);
}

/* How long the wait has lasted that the lane says it is in; 0: it is in none. Not bounded. */
static inline uint64_t open_wait_ns(const struct mpiwait_lane *lane)
{
	bool waits = lane->open_call != 0 && lane->open_call <= MPIWAIT_CALLS;

	return waits && lane->open_last_ns > lane->open_since_ns ? lane->open_last_ns - lane->open_since_ns : 0;
}
