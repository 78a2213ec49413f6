/*
 * Waits in records: written by a node, read, added up over steps and nodes, printed for the job. Pure.
 *
 * This file has the sums over ranks, each a row of record_fields.def, and the figures made of them. Single ranks are in
 * ranks.h, tables in rows.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"
#include "spank/record/waits/cost.h"
#include "spank/record/waits/ranks.h"
#include "spank/record/waits/rows.h"

#define WAIT_FLAG_BITS 9 /* number of bits of mpiwait_slot.flags that have a name */

/*
 * The sums. Those before WAIT_SHOWN are fields of the job's record by the same name. Three are only used for other
 * figures. Then come the members of "forecast", whose times are always in microseconds, of "hooks" and of "flags".
 */
enum wait_sum {
#define WAIT_SUM(name, ...) WAIT_##name,
#include "spank/record/record_fields.def"
	WAIT_SHOWN,
	WAIT_SPAN_S = WAIT_SHOWN, /* time from Init to Finalize */
	WAIT_SAMPLED_S,           /* time in long waits */
	WAIT_SAMPLED_CPU_S,       /* CPU time in long waits */
#define FORECAST(name, ...) WAIT_FORECAST_##name,
#include "spank/record/record_fields.def"
	WAIT_HOOKS,                                   /* idle calls seen, by bit of MPIWAIT_HOOK_* */
	WAIT_FLAGS = WAIT_HOOKS + (int)MPIWAIT_HOOKS, /* ranks with the flag, by bit */
	WAIT_SUMS = WAIT_FLAGS + WAIT_FLAG_BITS
};

/* Waits of one step, of a node's steps, or of a job. Zeros: nothing was added. */
struct record_wait {
	struct record_rows rows[ROWS_KINDS];
	double size;                               /* size of the largest world */
	double sum[WAIT_SUMS];                     /* times in seconds, those of forecasts in microseconds */
	double locality_bytes[MPIWAIT_LOCALITIES]; /* point-to-point bytes, by MPIWAIT_FAR and MPIWAIT_NEAR */
	struct record_cost cost;
};

/* Returns true if the sum is a time in seconds; those of forecasts are not. */
bool record_wait_is_time(enum wait_sum sum);

/*
 * Sets the sums, "spun", "phases", "sites" and "cost" in a node's "wait" of a step. sums_us: the sums, all times in
 * microseconds. Empty objects and tables are left out.
 */
void record_wait_write(json_t *json, const struct record_wait *wait, const uint64_t sums_us[WAIT_SUMS]);

/* Take details away. Idempotent; do nothing for NULL and null. */
void record_wait_shorten(json_t *json); /* removes ranks and profile; the ranks' sums stay */
void record_wait_least(json_t *json);   /* also removes tables, hooks and flags; a bounded number of figures stays */

/*
 * Adds a step's "wait", hostile input, to *sum, and reads its ranks, whose lists are the caller's to free. Absent or
 * null adds nothing and leaves *ret_ranks as it is. Returns true if a node can have written it.
 */
bool record_wait_read(const json_t *json, struct record_wait *sum, struct record_ranks *ret_ranks);

/* Adds the waits of the node with that index to the job's. */
void record_wait_add(struct record_wait *sum, const struct record_wait *from, uint32_t node);

/* Frees what *wait holds, but not *wait itself. */
void record_wait_free(struct record_wait *wait);

/* Returns the job's "wait"; null if no rank was seen. */
json_t *record_wait_print(const struct record_wait *sum, const struct record_ranks *ranks,
                          const struct record_names *names, const struct record_detail *detail);
