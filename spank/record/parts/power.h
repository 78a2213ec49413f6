/*
 * Power over time in records: written by a node, read from its record, added up over nodes, printed in the job's. Pure.
 *
 * The job's time is cut into equal parts, as many as the node with most of them has. A node counts from its own begin
 * to its own end, by its clock, with the job's part of its energy; one that was not sampled, with its mean.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/power.h"

/* A node's: the whole node's watts in equal parts of its time in the job, negative: not known. */
struct record_power {
	uint32_t count; /* 0: not sampled */
	float watts[POWER_PARTS_MAX];
};

/* The job's, once it has begun: part.count 0 where no node was sampled. */
struct sum_power {
	double start_s;
	struct power_parts parts;
};

/* The whole node's mW, null for a part of which less than half is known. NULL: it was not sampled. Sorts the points. */
json_t *record_power_write(struct power_curve *curve);

/* From the node's "power_mw", hostile input; absent or null: none. Returns whether it is what a node writes. */
bool record_power_read(const json_t *json, struct record_power *ret_power);

/* The job's time, in so many parts, as many as the node with most of them has; nothing is added yet. */
void record_power_begin(struct sum_power *sum, double start_s, double end_s, uint32_t parts);

/* One node, which used all_j, own_j of them for the job in that time. Without gaps its parts are own_j in all. */
void record_power_add(struct sum_power *sum, const struct record_power *power, double start_s, double end_s,
                      double all_j, double own_j);

/* The job's "power_w"; NULL where nothing is known. */
json_t *record_power_print(const struct sum_power *sum);
