/* How often processors had to slow down, in records: written by a node, read, added up, printed in the job's. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/machine/throttle.h"

/* Of one node, or of a job. Zeros: not known. */
struct record_throttle {
	bool known; /* a node has the counters */
	uint64_t events[THROTTLE_KIND_COUNT];
	const char *most; /* the node with most events, borrowed; NULL: there were none */
	double most_events;
};

/* null where there are no counters. */
json_t *record_throttle_write(const struct record_throttle *throttle);

/* From that node's "throttle", hostile input; absent (an older node) or null: not known. Returns whether it is good. */
bool record_throttle_read(const json_t *json, const char *node, struct record_throttle *ret_throttle);

void record_throttle_add(struct record_throttle *sum, const struct record_throttle *from);

/* NULL where no node has the counters. */
json_t *record_throttle_print(const struct record_throttle *sum);
