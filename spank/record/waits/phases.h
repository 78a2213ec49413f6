/*
 * Waits by phase of the program, in records: put together from ranks, written by a node, read as hostile input, added
 * up, printed in the job's. Pure. What a phase is stands in preload/process/phase.h.
 *
 * Invariant: a table takes RECORD_PHASES_MAX phases and what is in none; all others are one, RECORD_PHASE_OTHER. Sums
 * stay below what the reader of a node's record takes.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/record/waits/ranks.h"

#define RECORD_PHASE_FIRST 3 /* the least number that the program gives */
#define RECORD_PHASE_NONE  0
#define RECORD_PHASE_OTHER (-1)
#define RECORD_PHASES_MAX  64 /* that are told apart while they are added up, */
#define RECORD_PHASES_KEPT 16 /* and written and printed: those that waited most */

struct record_phase {
	int32_t level;
	uint64_t time_us;
	struct waited waited;
};

struct record_phases {
	size_t count;
	struct record_phase phase[RECORD_PHASES_MAX + 2];
};

/* Adds one phase, or a part of it. */
void record_phases_put(struct record_phases *sum, const struct record_phase *more);

/*
 * Sets a step's "phases" on a node: [[level, time_us, waits, wait_us, most_us, most_rank]], most waiting first, where
 * the program has named one.
 */
void record_phases_write(json_t *wait, const struct record_phases *phases);

/*
 * From a step's "phases", hostile input, NULL for none. Returns whether it is what a node writes. *ret_phases is the
 * caller's to free, NULL for none.
 */
bool record_phases_read(const json_t *json, struct record_phases **ret_phases);

/* One step's on one node; NULL for none. */
void record_phases_add(struct record_phases *sum, const struct record_phases *from, uint32_t node);

/* Sets the job's "phases": {"3": {"time_s": S, "waits": N, "wait_s": S, "max": {...}}}, most waiting first. */
void record_phases_print(json_t *wait, const struct record_phases *sum, const struct record_names *names);
