/*
 * Processes that are not among a job's ranks, and why, as its record has them: their own claim. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/notes.h"

#define RECORD_MISSED_MAX \
	1000000 /* processes of one step and node, for each reason: more is no claim that can be true */

struct record_missed {
	uint64_t processes[MPIWAIT_NOTES];
};

/* Reads the page of notes, which the job's user may write at the same time. */
void record_missed_take(const struct mpiwait_notes *page, struct record_missed *ret_missed);

/* Returns what a step's file and record.schema.json have; NULL where no process was missed. */
json_t *record_missed_print(const struct record_missed *missed);

/* Adds a step's "missed", hostile input; without one nothing. Returns true if it is what a node writes. */
bool record_missed_read(const json_t *json, struct record_missed *sum);
void record_missed_add(struct record_missed *sum, const struct record_missed *from);
