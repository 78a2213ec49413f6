/*
 * What a job's record says of the files of csv=: on how many nodes they were written, and on how many not, and why.
 * Each step counts for itself. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What became of them on one node, for the step's file and the record. */
enum csv_outcome {
	CSV_NONE, /* not asked for, or no rank to write of */
	CSV_WRITTEN,
	CSV_NO_DIRECTORY,
	CSV_NOT_ALLOWED,
	CSV_NO_SPACE,
	CSV_KILLED, /* a rank was, so that none wrote them */
	CSV_FAILED, /* anything else */
	CSV_OUTCOMES
};

/* Returns the outcome that the step's ranks claim (enum mpiwait_csv). ended: no rank will write any more. */
enum csv_outcome csv_outcome_of(uint32_t claim, bool ended);

struct record_csv {
	uint64_t nodes[CSV_OUTCOMES];
};

/* In words that records and reports have: "no such directory". */
json_t *record_csv_write(enum csv_outcome outcome);

/* Adds a step's "csv", hostile input; without one nothing. Returns whether it is what a node writes. */
bool record_csv_read(const json_t *json, struct record_csv *sum);
void record_csv_add(struct record_csv *sum, const struct record_csv *from);

/* As record.schema.json says; NULL where no files were asked for. */
json_t *record_csv_print(const struct record_csv *csv);
