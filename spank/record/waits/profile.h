/*
 * What the calls of a profiled job did: times, bytes and message sizes by MPI function, from the nodes' records into
 * the job's. Pure. A node's part of it is hostile input.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/stats.h"

struct profile_call {
	char name[48];
	double calls;
	double time_us; /* in calls that block; 0 for the others */
	double wait_us; /* of that, waiting */
	double bytes;
	double sizes[MPIWAIT_SIZES]; /* calls by class of size */
};

struct profile {
	size_t count;
	size_t room;
	struct profile_call call[];
};

/* One function's on a node: sets "MPI_Send": [calls, time_us, wait_us, bytes, [calls by class]]. */
void profile_write(json_t *profile, const char *name, const uint64_t numbers[4], const uint64_t sizes[MPIWAIT_SIZES]);

/*
 * From a step's "profile", hostile input, NULL for none. Returns whether it is of its form and its numbers are
 * possible; then they are in *profile, which is made where it is NULL, and freed by the caller.
 */
bool profile_read(const json_t *json, struct profile **profile);

/* Adds up, into one that is made where it is NULL. More names than there is room for are left out. */
void profile_add(struct profile **sum, const struct profile *from);

/*
 * The job's: {"MPI_Send": {"calls": N, "time_s": S, "wait_s": S, "bytes": N, "sizes": {"1024": N}}}, longest first. The
 * key of a size is the least number of bytes in its class. More calls than shown are added up as "other".
 */
json_t *profile_print(struct profile *profile, size_t shown, bool with_sizes);
