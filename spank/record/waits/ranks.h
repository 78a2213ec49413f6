/*
 * The waits of single ranks in records: written by a node, shortened to their sums, read, listed, and printed. Pure.
 *
 * A node's: "ranks": [[rank, wait_us, asleep_us], ...], or where there is no room for that
 * "omitted": {"count", "wait_us", "asleep_us", "min": [rank, wait_us], "max": [rank, wait_us]}.
 *
 * The job's are exact while they fit. Where they do not, the record has quantiles (each is the wait of one rank, the
 * nearest by order) and the ranks that waited most and least.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_RANK_MAX ((1 << 24) - 1)
#define RECORD_US_MAX   INT64_C(1000000000000000000) /* of a sum of waits */

struct record_rank {
	int32_t rank;  /* -1: not known */
	uint32_t node; /* index of the node, in the job's */
	uint32_t step; /* index of the step, in the job's */
	double wait_s;
	double asleep_s;
};

/* Of one step on one node, or summed over a step or a job. */
struct record_ranks {
	size_t count; /* the job's: step after step, each by rank; by rank alone where one world is there whole */
	struct record_rank *rank;
	double omitted; /* ranks that are in the sums but not in the list */
	double wait_s;  /* of one step on one node: of those that are omitted; else of all */
	double asleep_s;
	struct record_rank min;
	struct record_rank max;
};

/* Names by the indexes in struct record_rank. */
struct record_names {
	const char **node;
	const char **step; /* NULL: not to be told, there is one only */
};

/* How much of a record is printed. */
struct record_detail {
	bool ranks;  /* the wait of every rank */
	bool asleep; /* and how much of it each of them slept */
	bool nodes;  /* and where it ran */
	bool sizes;  /* of messages */
	size_t steps;
	size_t calls;
};

void record_rank_write(json_t *ranks, int32_t rank, uint64_t wait_us, uint64_t asleep_us);

/* Instead of the list what can still be merged; where that is so already, nothing. NULL and null: nothing. */
void record_ranks_shorten(json_t *wait);

/* From a step's "wait", hostile input; the list is the caller's to free. Returns whether it is what a node writes. */
bool record_ranks_read(const json_t *wait, struct record_ranks *ret_ranks);

/* One step's on one node, also to the sums of its step. There must be room in the job's list. */
void record_ranks_add(struct record_ranks *sum, struct record_ranks *step_sum, const struct record_ranks *from,
                      uint32_t node, uint32_t step);

/* Puts the list in order; is_whole: all ranks of a world of that size are there, as far as is known. */
void record_ranks_sort(struct record_ranks *sum, bool is_whole, double world);

/* How many, listed or not. */
double record_ranks_count(const struct record_ranks *ranks);

/* One rank, its wait and its node: {"rank": N, "s": S, "node": "c1"}. */
json_t *record_rank_print(int32_t rank, double wait_s, const char *node);

/* Sets "min" and "max"; and the lists, or what stands for them. */
void record_ranks_print_ends(json_t *wait, const struct record_ranks *sum, const struct record_names *names);
void record_ranks_print(json_t *wait, const struct record_ranks *sum, const struct record_names *names,
                        const struct record_detail *detail);
