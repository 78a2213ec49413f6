/*
 * Counts, in a job's record, the nodes on which the files of csv= were written, and those on which they were not, by
 * reason. Each step counts separately. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Outcome of csv= on one node, as the step's file and the record have it. */
enum csv_outcome {
	CSV_NONE, /* csv= was not given, or no rank was seen */
	CSV_WRITTEN,
	CSV_NO_DIRECTORY,
	CSV_NOT_ALLOWED,
	CSV_NO_SPACE,
	CSV_KILLED, /* a rank was killed, so that none wrote the files */
	CSV_FAILED, /* any other failure */
	CSV_OUTCOMES
};

/* Returns the outcome that the step's ranks claim (enum mpiwait_csv). ended: no rank will write any more. */
enum csv_outcome csv_outcome_of(uint32_t claim, bool ended);

/* Counts of outcomes. Zeros: no step asked for files. */
struct record_csv {
	uint64_t nodes[CSV_OUTCOMES]; /* nodes with that outcome, once per step */
};

/* Returns the outcome in the words that records and reports use: "no such directory". */
json_t *record_csv_write(enum csv_outcome outcome);

/* Adds a step's "csv", hostile input, to *sum; NULL adds nothing. Returns true if a node can have written it. */
bool record_csv_read(const json_t *json, struct record_csv *sum);

/* Adds the counts of *from to *sum. */
void record_csv_add(struct record_csv *sum, const struct record_csv *from);

/* Returns the job's "csv" as record.schema.json has it, or NULL if no step asked for files. */
json_t *record_csv_print(const struct record_csv *csv);
