/*
 * Counts the bytes that a call hands over, under profile: count times size of the datatype.
 *
 * The size is looked up after the real call has succeeded, and only for arguments that are significant at this rank: an
 * MPI aborts when it is asked for the size of MPI_DATATYPE_NULL. Sizes are not remembered, because a datatype's handle
 * may be reused for another datatype.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/mpi/calls.h"
#include "preload/process/config.h"
#include "preload/wait/wait.h"

/*
 * Prepares the counting. Called once, before the library acts. sizes: where classes of sizes are counted, NULL for
 * nowhere.
 */
void sizes_prepare(struct mpiwait_sizes *sizes);

/* Notes which ranks of MPI_COMM_WORLD, whose handle is world, are on this node. Called once, after sizes_prepare. */
void sizes_locate(const struct config_near *near, uintptr_t world, int32_t rank, int32_t size);

/* Data of the short way: facts of the MPI, and where the sizes are counted. */
extern struct sizes_short {
	int (*type_size)(uintptr_t, int *);
	struct mpiwait_sizes *classes;
	int proc_null;
	int world;               /* lower half of the handle of MPI_COMM_WORLD */
	uint32_t ranks;          /* ranks in MPI_COMM_WORLD, 0: their nodes are not known */
	const uint8_t *locality; /* enum mpiwait_locality of each rank */
} sizes_short;

/*
 * Returns the locality of a peer. Only that of a peer in MPI_COMM_WORLD costs no question to the MPI: other
 * communicators number their ranks in ways of their own.
 */
static inline __attribute__((always_inline)) size_t sizes_locality(uintptr_t comm, uint32_t peer)
{
	if ((int)comm == sizes_short.world && peer < sizes_short.ranks)
		return sizes_short.locality[peer];
	return MPIWAIT_NOWHERE;
}

/*
 * Returns how many elements a simple call (make_wrappers.py) hands over. A call without a peer passes its count as
 * peer, which is never MPI_PROC_NULL.
 */
static inline __attribute__((always_inline)) int64_t sizes_count_of(int64_t count, uintptr_t peer)
{
	return (int)peer != sizes_short.proc_null ? count : 0;
}

/* Counts the bytes of elements for which the MPI's int is too small. Returns their class. */
uint64_t sizes_count_large(enum call_row row, int64_t count, uintptr_t type, size_t locality);

/* Counts a simple call of `count` elements of the type, as sizes_count does. large: the count may exceed an int. */
static inline __attribute__((always_inline)) void sizes_count_simple(enum call_row row, bool large, int64_t count,
                                                                     uintptr_t type, size_t locality)
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
		lane->locality_bytes[locality] += bytes;
		lane->calls[row].bytes += bytes;
	} else if (size < 0) {
		class = sizes_count_large(row, count, type, locality);
	}
	__atomic_fetch_add(&sizes_short.classes->calls[row][class], 1, __ATOMIC_RELAXED);
}

/* Counts an outermost call that has returned success. large: the call was made by its large-count name. */
void sizes_count(enum call_row row, bool large, const uintptr_t *arguments);
