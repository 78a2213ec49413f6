/*
 * The grant in records: its mode, how many cores had it, how many did not and why, and what root saw of its use. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_GRANT_REFUSALS 12
#define RECORD_GRANT_WHY_MAX  65

/* A reason for refusing cores, and how many it cost. */
struct record_refusal {
	char why[RECORD_GRANT_WHY_MAX];
	uint64_t cores;
};

/* The grant of a step, a node or a job. Zeros: none was asked for. */
struct record_grant {
	char mode[8];         /* "lease" or "file"; "": no grant was asked for */
	uint64_t cores;       /* cores granted */
	uint64_t transitions; /* changes of a domain's frequency */
	uint64_t low_us;      /* time at low frequency, summed over domains */
	size_t refusals;
	struct record_refusal refusal[RECORD_GRANT_REFUSALS];
};

/* Returns "grant" as a node's step has it, or NULL without memory. */
json_t *record_grant_write(const struct record_grant *grant);

/* Adds a step's "grant", hostile input, to *sum; NULL adds nothing. Returns true if a node can have written it. */
bool record_grant_read(const json_t *json, struct record_grant *sum);

/* Adds a grant to *sum. Reasons beyond RECORD_GRANT_REFUSALS are counted under the last one. */
void record_grant_add(struct record_grant *sum, const struct record_grant *from);

/* Returns the job's "grant" as record.schema.json has it, or NULL if no grant was asked for. */
json_t *record_grant_print(const struct record_grant *grant);
