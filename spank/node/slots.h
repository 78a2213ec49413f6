/*
 * Slots: what the ranks of one step and node say about their waits, read from the stats segment.
 *
 * The job's user can write anything there. Sizes come from the sealed file, not from its header; what is read is copied
 * first; a time longer than the step has lasted is cut to that and the rank marked. The sums cannot overflow.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/contract/stats.h"
#include "spank/base/error.h"
#include "spank/record/waits/wait.h"

#define SLOTS_RANK_MAX (1 << 24) /* a rank or a world size is below this */

struct slots_rank {
	int32_t rank;    /* -1: not known */
	int32_t size;    /* of MPI_COMM_WORLD, 0: not known */
	uint64_t launch; /* the same number in ranks of one world, 0: not known */
	int32_t task;    /* of Slurm's, -1: not known */
	uint32_t pid;
	bool doubtful;      /* a number was out of range */
	uint64_t wait_ns;   /* summed over threads, the wait in which it was killed included */
	uint64_t asleep_ns; /* of that, in a rung in which the core rests or serves others */
	uint64_t span_ns;   /* from Init to Finalize, or until now */
	uint32_t slot;      /* index of its slot */
	bool running;       /* it has not come to Finalize */
	uint32_t open_call; /* row + 1 of the call that one of its threads has waited in the longest now, 0: none waits
	                     */
	uint64_t open_ns;   /* for how long that thread has waited there */
};

struct slots {
	size_t count;
	uint32_t alive; /* with csv=: ranks that have not left MPI; a claim, as is: */
	uint32_t csv;   /* enum mpiwait_csv */
	bool profiled;
	uint64_t sum[WAIT_SUMS];              /* times in ns, but those of forecasts in us */
	uint64_t place_bytes[MPIWAIT_PLACES]; /* under profile: point to point, where the peer's node is known */
	struct record_cost cost;              /* of sleeping */
	struct record_rows phases;            /* in phase */
	struct record_rows sites;             /* in site */
	struct record_row phase[ROWS_PHASE_MAX];
	struct record_row site[ROWS_SITE_MAX];
	struct mpiwait_call_stats call[MPIWAIT_CALLS]; /* by row of mpi_calls.def, as are: */
	uint64_t sizes[MPIWAIT_CALLS][MPIWAIT_SIZES];  /* under profile: calls by class of size */
	struct slots_rank rank[];
};

/*
 * Reads the segment behind the descriptor. begun_ns: CLOCK_MONOTONIC when the step began, now_ns: now. *ret_slots is
 * the caller's to free. Returns 0, -EINVAL with what is wrong with the header, -ENOMEM or -errno.
 */
int slots_read(int segment, uint64_t begun_ns, uint64_t now_ns, struct slots **ret_slots, struct error *error);

/*
 * Reads the segment's header; *ret_room: how many slots the sealed file was made for, since the header's number is the
 * user's. Returns 0, -EINVAL with what is wrong with the header, or -errno.
 */
int slots_header_read(int segment, struct mpiwait_header *header, uint32_t *ret_room, struct error *error);

/* Returns the name of that row of mpi_calls.def as programs spell it, NULL if this release has no such row. */
const char *slots_call_name(size_t row);

/* Returns true if a core rests in that rung, or serves others. */
bool slots_rung_rests(unsigned rung);

/*
 * One step's waits on one node as its record has them (wait.h and its parts), times in microseconds: the ranks,
 * the sums, "calls" of what waited, and of what was called and may wait; under profile "profile". What is empty is left
 * out. NULL only without memory.
 */
json_t *slots_to_json(const struct slots *slots);
