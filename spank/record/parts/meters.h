/*
 * Sources of energy beside the one that a job's joules are of, each with its scope, in records. Written by a node,
 * read, added up over nodes, printed in the job's. Pure.
 *
 * A node's: {SOURCE: {SCOPE: uj, ...}, ...}, of whole nodes, absent where there is no other source. The source powercap
 * is among them where the joules are of another one.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/meters.h"

#define RECORD_SOURCES (METER_SOURCE_COUNT + 1) /* powercap is the last one */

/* The joules that each source told of each scope, on one node or of a job. Zeros: it told nothing. */
struct record_meters {
	uint32_t nodes[RECORD_SOURCES][METER_SCOPE_COUNT];
	double joules[RECORD_SOURCES][METER_SCOPE_COUNT];
};

/* Sums what meters advanced, for each source but NVML, and what powercap's zones used (NULL: not read). NULL: nothing.
 */
json_t *record_meters_write(const struct meters *from, const struct meters *to, const struct energy_window *powercap);

/* From "meters" of a node, hostile input; absent: none. Returns whether it is what a node writes; zeros before. */
bool record_meters_read(const json_t *json, struct record_meters *ret_meters);
void record_meters_add(struct record_meters *sum, const struct record_meters *from);

/* [{"source", "scope", "joules", "nodes"}, ...]; NULL only without memory. */
json_t *record_meters_print(const struct record_meters *sum);
