/*
 * What the calls of a profiled job did: times, bytes and message sizes by MPI function, from the nodes' records into
 * the job's. Pure. A node's part of it is hostile input.
 */
#ifndef MPIWAIT_SPANK_PROFILE_H
#define MPIWAIT_SPANK_PROFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/stats.h"

#define PROFILE_CALLS_SHOWN 24

struct profile_call {
	char name[48];
	double calls;
	double time_s; /* in calls that block; 0 for the others */
	double wait_s; /* of that, waiting */
	double bytes;
	double sizes[MPIWAIT_SIZES]; /* calls by class of size */
};

struct profile {
	size_t count;
	struct profile_call call[MPIWAIT_CALLS + 1];
};

/* Whether a node's "profile" (slots.h) is of its form, and its numbers are possible. NULL is: there is none. */
bool profile_is_good(const json_t *json);

/* Adds a good one. More names than there is room for are left out. */
void profile_add(struct profile *profile, const json_t *json);

/*
 * The job's: {"MPI_Send": {"calls": N, "time_s": S, "wait_s": S, "bytes": N, "sizes": {"1024": N}}}, longest first. The
 * key of a size is the least number of bytes in its class. More calls than shown are added up as "other". NULL where
 * nothing was profiled.
 */
json_t *profile_print(struct profile *profile, size_t shown, bool with_sizes);

#endif
