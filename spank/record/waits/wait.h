/*
 * The ranks' waits in records: written by a node, read, added up over steps and nodes, printed in the job's. Pure.
 *
 * What single ranks have to say is ranks.h, tables are rows.h; here are what is a sum over the ranks and nothing else,
 * one row each of record_fields.def, and what is made of them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"
#include "spank/record/waits/cost.h"
#include "spank/record/waits/ranks.h"
#include "spank/record/waits/rows.h"

#define WAIT_FLAG_BITS 9 /* of mpiwait_slot.flags, that have a word */

/*
 * Sums of which the job's record has the fields of that name, WAIT_late, and of which it only has what is made of them;
 * then those of the objects "forecast", where times are always in microseconds, "hooks" and "flags".
 */
enum wait_sum {
#define WAIT_SUM(name, ...) WAIT_##name,
#include "spank/record/record_fields.def"
	WAIT_SHOWN,
	WAIT_SPAN_S = WAIT_SHOWN, /* from Init to Finalize */
	WAIT_SAMPLED_S,           /* in long waits, and CPU time of that */
	WAIT_SAMPLED_CPU_S,
#define FORECAST(name, ...) WAIT_FORECAST_##name,
#include "spank/record/record_fields.def"
	WAIT_HOOKS,                                   /* idle calls looked at, by bit of MPIWAIT_HOOK_* */
	WAIT_FLAGS = WAIT_HOOKS + (int)MPIWAIT_HOOKS, /* ranks that have the flag */
	WAIT_SUMS = WAIT_FLAGS + WAIT_FLAG_BITS
};

/* Of one step, of a node's steps, or of a job. Zeros: nothing yet. */
struct record_wait {
	struct record_rows rows[ROWS_KINDS];
	double size;           /* of the largest world */
	double sum[WAIT_SUMS]; /* times in seconds, but for forecasts */
	double place_bytes[MPIWAIT_PLACES];
	struct record_cost cost;
};

/* Whether a sum is a time, and none of a forecast. */
bool record_wait_is_time(enum wait_sum sum);

/*
 * Sets in a node's record of a step what is no list of ranks, of functions or profile; its sums are given with all
 * times in microseconds. What is empty is left out.
 */
void record_wait_write(json_t *json, const struct record_wait *wait, const uint64_t sums_us[WAIT_SUMS]);

/* Takes away details; to take away twice is the same as once. NULL and null: nothing. */
void record_wait_shorten(json_t *json); /* ranks and profile: their sums stay */
void record_wait_least(json_t *json);   /* and functions, hooks and flags: a bounded number of numbers stays */

/*
 * Adds a step's "wait", hostile input, and gives its ranks, whose list is the caller's to free; absent or null:
 * nothing, and zeros. Returns whether it is what a node writes.
 */
bool record_wait_read(const json_t *json, struct record_wait *sum, struct record_ranks *ret_ranks);

/* Adds one node's. */
void record_wait_add(struct record_wait *sum, const struct record_wait *from, uint32_t node);
void record_wait_free(struct record_wait *wait);

/* The job's: null where no rank was seen. */
json_t *record_wait_print(const struct record_wait *sum, const struct record_ranks *ranks,
                          const struct record_names *names, const struct record_detail *detail);
