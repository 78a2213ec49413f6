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
	int32_t rank; /* -1: not known */
	uint64_t wait_us;
	uint64_t asleep_us;
};

struct record_ranks {
	size_t count;
	struct record_rank *rank;
	uint64_t omitted; /* ranks that are not listed, with their sums and extremes */
	struct record_rank omitted_sum;
	struct record_rank omitted_min;
	struct record_rank omitted_max;
};

struct sum_rank {
	int32_t rank;
	uint32_t node; /* index of the node */
	uint32_t step; /* index of the step */
	double wait_s;
	double asleep_s;
};

/* Of one step. */
struct sum_waited {
	double ranks;
	double wait_s;
};

struct sum_ranks {
	size_t count; /* step after step, each by rank; by rank alone where the whole world is there just once */
	struct sum_rank *rank;
	double omitted; /* ranks that are in the sums but not in the list */
	double total_s, asleep_s;
	struct sum_rank min, max;
};

/* What the ranks waited in one place of the program: a phase, a call site. */
struct waited {
	uint64_t waits;
	uint64_t wait_us;
	uint64_t most_us; /* of the rank that waited most there: */
	int32_t most_rank;
	uint32_t most_node; /* index of its node, in the job's */
};

/* Names by the indexes in struct sum_rank. */
struct record_names {
	const char **node;
	const char **step; /* NULL: there is one step only */
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

void record_rank_write(json_t *ranks, const struct record_rank *rank);

/* Instead of the list what can still be merged; where that is so already, nothing. NULL and null: nothing. */
void record_ranks_shorten(json_t *wait);

/* From a step's "wait", hostile input; the list is the caller's to free. Returns whether it is what a node writes. */
bool record_ranks_read(const json_t *wait, struct record_ranks *ret_ranks);

/* One step's on one node; there must be room in the list. */
void record_ranks_add(struct sum_ranks *sum, const struct record_ranks *from, uint32_t node, uint32_t step,
                      struct sum_waited *waited);

/* Puts the list in order; is_whole: all ranks of a world of that size are there, as far as is known. */
void record_ranks_sort(struct sum_ranks *sum, bool is_whole, double world);

/* How many, listed or not. */
double record_ranks_count(const struct sum_ranks *sum);

/* One rank, its wait and its node: {"rank": N, "s": S, "node": "c1"}. */
json_t *record_rank_print(int32_t rank, double seconds, const char *node);

/* Adds; takes [..., waits, wait_us, most_us, most_rank], hostile input; sets "waits", "wait_s" and "max". */
void record_waited_add(struct waited *sum, const struct waited *more);
bool record_waited_read(const json_t *row, size_t at, struct waited *ret_waited);
void record_waited_print(json_t *json, const struct waited *waited, const struct record_names *names);

/* Sets "min" and "max"; and the lists, or what stands for them. */
void record_ranks_print_ends(json_t *wait, const struct sum_ranks *sum, const struct record_names *names);
void record_ranks_print(json_t *wait, const struct sum_ranks *sum, const struct record_names *names,
                        const struct record_detail *detail);
