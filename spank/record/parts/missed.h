/*
 * Processes that are not among a job's ranks, and why: counts in its record, claimed by the processes themselves. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/notes.h"

#define RECORD_MISSED_MAX \
	1000000 /* bound of the processes of one step and node for each reason: a claim above it cannot be true */

/* Counts of missed processes, by enum mpiwait_note. */
struct record_missed {
	uint64_t processes[MPIWAIT_NOTES];
};

/* Copies the counts from the page of notes, which the job's user may write at the same time, and bounds them. */
void record_missed_take(const struct mpiwait_notes *page, struct record_missed *ret_missed);

/* Returns "missed" as a step's file and record.schema.json have it, or NULL if no process was missed. */
json_t *record_missed_print(const struct record_missed *missed);

/* Adds a step's "missed", hostile input, to *sum; NULL adds nothing. Returns true if a node can have written it. */
bool record_missed_read(const json_t *json, struct record_missed *sum);

/* Adds the counts of *from to *sum. */
void record_missed_add(struct record_missed *sum, const struct record_missed *from);
