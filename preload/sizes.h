/*
 * How many bytes a call hands over, under profile: count times size of the datatype.
 *
 * Looked up after the real call has succeeded, and only for arguments that are significant at this rank: an MPI aborts
 * when it is asked for the size of MPI_DATATYPE_NULL. Sizes are not remembered, because a datatype's handle may be
 * given to another one.
 */
#ifndef MPIWAIT_PRELOAD_SIZES_H
#define MPIWAIT_PRELOAD_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/calls.h"

/* Once, before the library acts. sizes: where classes of sizes are counted, NULL for nowhere. */
void sizes_prepare(struct mpiwait_sizes *sizes);

/* What the short way needs of the MPI, and where it counts. */
extern struct sizes_short {
	int (*type_size)(uintptr_t, int *);
	struct mpiwait_sizes *classes;
	int proc_null;
} sizes_short;

/* One message, one count, at most one peer: most calls of most programs. A constant where the signature is one. */
static inline __attribute__((always_inline)) bool sizes_is_simple(const char *signature, enum call_volume volume)
{
	const char *type = __builtin_strchr(signature, 't'), *peer = __builtin_strchr(signature, 'p');

	return volume == VOLUME_FIRST && type && !__builtin_strchr(type + 1, 't') && __builtin_strchr(signature, 'n') &&
	       (!peer || !__builtin_strchr(peer + 1, 'p')) && !__builtin_strchr(signature, 'N') &&
	       !__builtin_strchr(signature, 'T') && !__builtin_strchr(signature, 'R');
}

/* The argument that has this letter first, which must be there. Constant likewise. */
static inline __attribute__((always_inline)) size_t sizes_at(const char *signature, char letter)
{
	const char *at = __builtin_strchr(signature, letter);

	return at ? (size_t)(at - signature) : 0;
}

/* The same as sizes_count for a simple call of this lane; with no peer, peer is the count: that is not MPI_PROC_NULL.
 */
static inline __attribute__((always_inline)) void sizes_count_simple(struct mpiwait_lane *lane, enum call_row row,
                                                                     int64_t count, uintptr_t type, uintptr_t peer)
{
	uint64_t bytes = 0;
	int size = 0;

	if (count > 0 && (int)peer != sizes_short.proc_null) {
		sizes_short.type_size(type, &size); /* leaves 0 where it fails */
		bytes = size > 0 ? (uint64_t)count * (uint64_t)size : 0;
	}
	lane->calls[row].bytes += bytes;
	__atomic_fetch_add(&sizes_short.classes->calls[row][mpiwait_size_class(bytes)], 1, __ATOMIC_RELAXED);
}

/* Counts an outermost call that has returned success; large: by its large-count name. */
void sizes_count(enum call_row row, bool large, const uintptr_t *arguments);

#endif
