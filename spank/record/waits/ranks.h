/*
 * The waits of single ranks in records: written by a node, shortened to their sums, read, listed, and printed. Pure.
 *
 * A node's: "ranks": [[rank, wait_us, asleep_us], ...], with the rank's world (worlds.h) and its Slurm task behind
 * where these are to be told, or where there is no room for that "omitted": {"count", "wait_us", "asleep_us", "min":
 * [rank, wait_us], "max": [rank, wait_us]}.
 *
 * The job's are exact while they fit. Where they do not, the record has quantiles (each is the wait of one rank, the
 * nearest by order) and the ranks that waited most and least.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/record/waits/rank_list.h"

/* How much of a record is printed. */
struct record_detail {
	bool ranks;  /* the wait of every rank */
	bool asleep; /* and how much of it each of them slept */
	bool nodes;  /* and where it ran */
	bool sizes;  /* of messages */
	size_t steps;
	size_t calls;
};

/* The times are not those in the rank. */
void record_rank_write(json_t *ranks, const struct record_rank *rank, uint64_t wait_us, uint64_t asleep_us);

/* Instead of the list what can still be merged; where that is so already, nothing. NULL and null: nothing. */
void record_ranks_shorten(json_t *wait);

/* From a step's "wait", hostile input; the lists are the caller's to free. Returns whether it is what a node writes. */
bool record_ranks_read(const json_t *wait, struct record_ranks *ret_ranks);

/* One step's on one node, also to the sums of its step. There must be room in the job's lists. */
void record_ranks_add(struct record_ranks *sum, struct record_ranks *step_sum, const struct record_ranks *from,
                      uint32_t node, uint32_t step);

/* Puts worlds and list in order; is_whole: all ranks of a world of that size are there, as far as is known. */
void record_ranks_sort(struct record_ranks *sum, bool is_whole, double world);

/* One rank, its wait and its node: {"rank": N, "s": S, "node": "c1"}. */
json_t *record_rank_print(int32_t rank, double wait_s, const char *node);

/* Sets "min" and "max"; and the lists, or what stands for them. */
void record_ranks_print_ends(json_t *wait, const struct record_ranks *sum, const struct record_names *names);
void record_ranks_print(json_t *wait, const struct record_ranks *sum, const struct record_names *names,
                        const struct record_detail *detail);
