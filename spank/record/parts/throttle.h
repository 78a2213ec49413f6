/*
 * Throttling in records: how often processors had to slow down. Written by a node, read, added up, printed for the job.
 * Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/machine/throttle.h"

/* Throttle events of one node or a job. Zeros: unknown. */
struct record_throttle {
	bool known; /* some node has the counters */
	uint64_t events[THROTTLE_KIND_COUNT];
	const char *most;   /* name of the node with most events, borrowed; NULL: no events */
	double most_events; /* events of that node */
};

/* Returns a node's "throttle": null if it has no counters. */
json_t *record_throttle_write(const struct record_throttle *throttle);

/*
 * Reads the "throttle" of node `node`, hostile input; absent (an older node) or null is unknown. Returns true if a node
 * can have written it.
 */
bool record_throttle_read(const json_t *json, const char *node, struct record_throttle *ret_throttle);

/* Adds the events of a node to *sum. */
void record_throttle_add(struct record_throttle *sum, const struct record_throttle *from);

/* Returns the job's "throttle", or NULL if no node has the counters. */
json_t *record_throttle_print(const struct record_throttle *sum);
