/*
 * What a job's record says of the grant: which mode, how many cores had it, how many not and why, and what root saw of
 * its use. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_GRANT_REFUSALS 12
#define RECORD_GRANT_WHY_MAX  65

struct record_refusal {
	char why[RECORD_GRANT_WHY_MAX];
	uint64_t cores;
};

struct record_grant {
	char mode[8]; /* "": no grant was asked for */
	uint64_t cores;
	uint64_t transitions;
	uint64_t low_us;
	size_t refusals;
	struct record_refusal refusal[RECORD_GRANT_REFUSALS];
};

/* In the step's file and record on a node; NULL: no memory. */
json_t *record_grant_write(const struct record_grant *grant);

/* Adds a step's "grant", hostile input; without one nothing. Returns whether it is what a node writes. */
bool record_grant_read(const json_t *json, struct record_grant *sum);

/* Reasons beyond the last place are counted there. */
void record_grant_add(struct record_grant *sum, const struct record_grant *from);

/* As record.schema.json says; NULL where no grant was asked for. */
json_t *record_grant_print(const struct record_grant *grant);
