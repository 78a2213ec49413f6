/*
 * Power over time in records: written by a node, read, added up over nodes, printed for the job. No I/O.
 *
 * The job's time is cut into equal parts, as many as the node with most of them has. Each node adds the job's portion
 * of its power, from its own begin to its own end, by its own clock. A node that was not sampled adds the mean.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/power.h"

/* Mean power of the whole node in equal parts of its time in the job. */
struct record_power {
	uint32_t count;               /* number of parts; 0: the node was not sampled */
	float watts[POWER_PARTS_MAX]; /* negative: unknown */
};

/* Power of the job while nodes are added. parts.count is 0 if no node was sampled. */
struct sum_power {
	double start_s;
	struct power_parts parts;
};

/*
 * Returns a node's "power_mw", an array with the whole node's mean power in each part; null for a part of which less
 * than half is known. Sorts the curve's points. Returns NULL if the node was not sampled, or without memory.
 */
json_t *record_power_write(struct power_curve *curve);

/* Reads a node's "power_mw", hostile input; absent or null is none. Returns true if a node can have written it. */
bool record_power_read(const json_t *json, struct record_power *ret_power);

/*
 * Sets *sum to the job's time, cut into `parts` empty parts: as many as the node with most of them has. None if the
 * job had no time.
 */
void record_power_begin(struct sum_power *sum, double start_s, double end_s, uint32_t parts);

/*
 * Adds one node, which used all_j joules from start_s to end_s, own_j of them for the job. If no part of the node is
 * unknown, what is added sums up to own_j.
 */
void record_power_add(struct sum_power *sum, const struct record_power *power, double start_s, double end_s,
                      double all_j, double own_j);

/* Returns the job's "power_w", an array with null for unknown parts, or NULL if no part is known. */
json_t *record_power_print(const struct sum_power *sum);
