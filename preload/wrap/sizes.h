/*
 * How many bytes a call hands over, under profile: count times size of the datatype.
 *
 * Looked up after the real call has succeeded, and only for arguments that are significant at this rank: an MPI aborts
 * when it is asked for the size of MPI_DATATYPE_NULL. Sizes are not remembered, because a datatype's handle may be
 * given to another one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/mpi/calls.h"
#include "preload/process/config.h"
#include "preload/wait/wait.h"

/* Once, before the library acts. sizes: where classes of sizes are counted, NULL for nowhere. */
void sizes_prepare(struct mpiwait_sizes *sizes);

/* Once after that, in this rank of MPI_COMM_WORLD, whose handle is world: which ranks are on its node. */
void sizes_place(const struct config_near *near, uintptr_t world, int32_t rank, int32_t size);

/* What the short way needs of the MPI, and where it counts. */
extern struct sizes_short {
	int (*type_size)(uintptr_t, int *);
	struct mpiwait_sizes *classes;
	int proc_null;
	int world;            /* MPI_COMM_WORLD, the lower half of its handle */
	uint32_t ranks;       /* in it, 0: where they are is not known */
	const uint8_t *place; /* of each, an enum mpiwait_place */
} sizes_short;

/* Other communicators number their ranks in ways of their own: only of this one it is free to know. */
static inline __attribute__((always_inline)) size_t sizes_place_of(uintptr_t comm, uint32_t peer)
{
	if ((int)comm == sizes_short.world && peer < sizes_short.ranks)
		return sizes_short.place[peer];
	return MPIWAIT_NOWHERE;
}

/* How much of a simple call (make_wrappers.py) is a message; with no peer, peer is the count: that is not
 * MPI_PROC_NULL. */
static inline __attribute__((always_inline)) int64_t sizes_count_of(int64_t count, uintptr_t peer)
{
	return (int)peer != sizes_short.proc_null ? count : 0;
}

/* The same as sizes_count for a simple call: so many of that type. large: more than an int can count. */
static inline __attribute__((always_inline)) void sizes_count_simple(enum call_row row, bool large, int64_t count,
                                                                     uintptr_t type, size_t place)
{
	struct mpiwait_lane *lane;
	uint64_t bytes, class = 0;
	int size = 0;

	if (count > 0)
		sizes_short.type_size(type, &size); /* leaves 0 where it fails */
	if (__builtin_expect(size > 0, 1)) {
		bytes = (uint64_t)count * (uint64_t)size;
		class = large ? mpiwait_size_class(bytes) : 64 - (uint64_t)__builtin_clzll(bytes);
		lane = wait_self.lane;
		lane->place_bytes[place] += bytes;
		lane->calls[row].bytes += bytes;
	}
	__atomic_fetch_add(&sizes_short.classes->calls[row][class], 1, __ATOMIC_RELAXED);
}

/* Counts an outermost call that has returned success; large: by its large-count name. */
void sizes_count(enum call_row row, bool large, const uintptr_t *arguments);
