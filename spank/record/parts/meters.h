/*
 * Meters in records: sources of energy other than the one that the job's joules come from, each with its scope. Written
 * by a node, read, added up over nodes, printed for the job. Pure.
 *
 * A node writes {SOURCE: {SCOPE: uj, ...}, ...} for the whole node; nothing if it has no other source. powercap is
 * among them if the joules come from another source.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/meters.h"

#define RECORD_SOURCES (METER_SOURCE_COUNT + 1) /* the meters' sources, and powercap as the last one */

/* Joules by source and scope, of one node or a job. Zeros: that source has no figure for that scope. */
struct record_meters {
	uint32_t nodes[RECORD_SOURCES][METER_SCOPE_COUNT];
	double joules[RECORD_SOURCES][METER_SCOPE_COUNT];
};

/*
 * Returns a node's "meters": how far the meters of each source advanced from `from` to `to`, without GPUs' (gpus.h),
 * and the energy of powercap's zones (NULL: not read). Leaves out a scope if one of its meters is missing in `to`,
 * restarted, or was not updated. Returns NULL if nothing is left to write, or without memory.
 */
json_t *record_meters_write(const struct meters *from, const struct meters *to, const struct energy_window *powercap);

/*
 * Reads a node's "meters", hostile input; absent is none. *ret_meters must be zeroed. Returns true if a node can have
 * written it.
 */
bool record_meters_read(const json_t *json, struct record_meters *ret_meters);

/* Adds the meters of a node to *sum. */
void record_meters_add(struct record_meters *sum, const struct record_meters *from);

/* Returns [{"source", "scope", "joules", "nodes"}, ...]; NULL only without memory. */
json_t *record_meters_print(const struct record_meters *sum);
