/* How often processors had to slow down, in records: written by a node, read, added up, printed in the job's. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/machine/throttle.h"

struct record_throttle {
	bool known; /* the node has the counters */
	uint64_t events[THROTTLE_KIND_COUNT];
};

struct sum_throttle {
	uint32_t nodes; /* that have the counters */
	double events[THROTTLE_KIND_COUNT];
	const char *most; /* the node with most events, borrowed; NULL: there were none */
	double most_events;
};

/* null where there are no counters. */
json_t *record_throttle_write(const struct record_throttle *throttle);

/* From a node's "throttle", hostile input; absent (an older node) or null: not known. Returns whether it is good. */
bool record_throttle_read(const json_t *json, struct record_throttle *ret_throttle);

/* Of all kinds together. */
double record_throttle_events(const struct record_throttle *throttle);

void record_throttle_add(struct sum_throttle *sum, const struct record_throttle *from, const char *node);

/* NULL where no node has the counters. */
json_t *record_throttle_print(const struct sum_throttle *sum);
