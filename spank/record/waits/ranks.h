/*
 * Waits of single ranks in records: written by a node, shortened to their sums, read, listed, and printed. Pure.
 *
 * A node writes "ranks": [[rank, wait_us, asleep_us], ...]. A row goes on with the rank's world (worlds.h) and Slurm
 * task where these matter. Without room for the list it writes "omitted": {"count", "wait_us", "asleep_us", "min":
 * [rank, wait_us], "max": [rank, wait_us]} in its place.
 *
 * The job's waits are exact while they fit. Otherwise the record has quantiles and the ranks that waited most and
 * least. Each quantile is the wait of one rank, the nearest by order.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/record/waits/rank_list.h"

/* How much detail of a record is printed. */
struct record_detail {
	bool ranks;   /* the wait of every rank */
	bool asleep;  /* how much of its wait every rank slept */
	bool nodes;   /* the node of every rank */
	bool sizes;   /* message sizes */
	size_t steps; /* most steps */
	size_t calls; /* most functions */
};

/* Appends a rank to a node's "ranks", with the given times; those in *rank are ignored. */
void record_rank_write(json_t *ranks, const struct record_rank *rank, uint64_t wait_us, uint64_t asleep_us);

/*
 * Replaces the list of ranks by "omitted", which can still be merged. Does nothing if that was done, or for NULL and
 * null.
 */
void record_ranks_shorten(json_t *wait);

/*
 * Reads the ranks and worlds of a step's "wait", hostile input. The lists are the caller's to free in any case. Returns
 * true if a node can have written them.
 */
bool record_ranks_read(const json_t *wait, struct record_ranks *ret_ranks);

/*
 * Adds the ranks of one step on one node to the job's lists and sums, and to the sums of the step. The job's lists must
 * have room.
 */
void record_ranks_add(struct record_ranks *sum, struct record_ranks *step_sum, const struct record_ranks *from,
                      uint32_t node, uint32_t step);

/* Sorts the job's worlds and ranks. is_whole: no rank is known to be missing; world: size of the largest world. */
void record_ranks_sort(struct record_ranks *sum, bool is_whole, double world);

/* Returns one rank, its wait and its node: {"rank": N, "s": S, "node": "c1"}. */
json_t *record_rank_print(int32_t rank, double wait_s, const char *node);

/* Sets "min" and "max" in the job's "wait". */
void record_ranks_print_ends(json_t *wait, const struct record_ranks *sum, const struct record_names *names);

/* Sets the per-rank lists in the job's "wait"; quantiles and extremes in their place if `detail` leaves them out. */
void record_ranks_print(json_t *wait, const struct record_ranks *sum, const struct record_names *names,
                        const struct record_detail *detail);
