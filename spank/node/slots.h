/*
 * Slots: what the ranks of one step and node claim about their waits, read from the stats segment.
 *
 * The job's user can write anything there. Sizes come from the sealed file, not from its header. Everything is copied
 * before it is checked. A time longer than the step has lasted is cut to that, and the rank is marked doubtful. The
 * sums cannot overflow.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/contract/stats.h"
#include "spank/base/error.h"
#include "spank/record/waits/wait.h"

#define SLOTS_RANK_MAX (1 << 24) /* ranks and world sizes are below this */

/* One rank's claims, bounded. */
struct slots_rank {
	int32_t rank;     /* rank in MPI_COMM_WORLD, -1: unknown */
	int32_t size;     /* size of MPI_COMM_WORLD, 0: unknown */
	uint64_t launch;  /* the same number in all ranks of a world, 0: unknown */
	int32_t task;     /* Slurm's task, -1: unknown */
	uint32_t program; /* number of the policy that it chose by its program, 0: the step's own */
	uint32_t pid;
	bool doubtful;      /* a number was out of range */
	uint64_t wait_ns;   /* sum over threads, with the wait that a killed rank was in */
	uint64_t asleep_ns; /* the part of wait_ns that the rank slept */
	uint64_t span_ns;   /* from Init to Finalize, or until now */
	uint32_t slot;      /* index of its slot */
	bool running;       /* the rank has not come to Finalize */
	uint32_t open_call; /* row of the call in which a thread has waited longest now, plus 1; 0: none waits */
	uint64_t open_ns;   /* time that this thread has waited there */
};

/* All ranks' claims, bounded and summed. */
struct slots {
	size_t count;                                /* ranks */
	uint32_t alive;                              /* with csv=: ranks that have not left MPI, by their claim */
	uint32_t csv;                                /* enum mpiwait_csv, by the ranks' claim */
	bool profiled;                               /* some rank ran under profile */
	uint64_t sum[WAIT_SUMS];                     /* times in ns, those of forecasts in us */
	uint64_t locality_bytes[MPIWAIT_LOCALITIES]; /* under profile: point-to-point bytes, where the peer's node is
	                                                known */
	struct record_cost cost;                     /* cost of sleeping */
	struct record_rows phases;                   /* rows in `phase` */
	struct record_rows sites;                    /* rows in `site` */
	struct record_row phase[ROWS_PHASE_MAX];
	struct record_row site[ROWS_SITE_MAX];
	struct mpiwait_call_stats call[MPIWAIT_CALLS]; /* by row of mpi_calls.def */
	uint64_t sizes[MPIWAIT_CALLS]
	              [MPIWAIT_SIZES]; /* under profile: calls by row of mpi_calls.def and class of size */
	struct slots_rank rank[];
};

/*
 * Reads the stats segment. begun_ns, now_ns: CLOCK_MONOTONIC when the step began, and now. *ret_slots is the caller's
 * to free. Returns 0, -EINVAL with the error in the header, -ENOMEM or -errno.
 */
int slots_read(int segment, uint64_t begun_ns, uint64_t now_ns, struct slots **ret_slots, struct error *error);

/*
 * Reads the segment's header. *ret_room is the number of slots that the sealed file was made for; the number in the
 * header is the user's claim. Returns 0, -EINVAL with the error in the header, or -errno.
 */
int slots_header_read(int segment, struct mpiwait_header *header, uint32_t *ret_room, struct error *error);

/* Returns the name of that row of mpi_calls.def as programs spell it, NULL if this release has no such row. */
const char *slots_call_name(size_t row);

/*
 * Returns the step's "wait" on this node (wait.h and its parts), times in microseconds: the ranks, the sums, "calls" of
 * functions that waited or may wait, and under profile "profile". Empty parts are left out. NULL only without memory.
 */
json_t *slots_to_json(const struct slots *slots);
