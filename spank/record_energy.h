/*
 * The parts of a job's record that come from counters: energy and throttling.
 */
#ifndef MPIWAIT_SPANK_RECORD_ENERGY_H
#define MPIWAIT_SPANK_RECORD_ENERGY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "spank/record_node.h"
#include "spank/record_sum.h"

/* "energy": null where no node could read its counters. */
json_t *record_energy_print(const struct sum *sum, const struct record_node *const nodes[], size_t count);

/* From the node's record's "throttle"; absent (an older node) or null (no counters): none. Returns whether it is good.
 */
bool record_throttle_get(const json_t *json, struct record_node *node);

/* "throttle", where at least one node has the counters. */
json_t *record_throttle_print(const struct sum *sum, const struct record_node *const nodes[]);

#endif
