/*
 * The parts of a job's record that come from counters: energy and throttling.
 */
#ifndef MPIWAIT_SPANK_RECORD_ENERGY_H
#define MPIWAIT_SPANK_RECORD_ENERGY_H

#include <jansson.h>
#include <stddef.h>

#include "spank/record_node.h"
#include "spank/record_sum.h"

/* "energy": null where no node could read its counters. */
json_t *record_energy_print(const struct sum *sum, const struct record_node *const nodes[], size_t count);

/* "throttle", where at least one node has the counters. */
json_t *record_throttle_print(const struct sum *sum, const struct record_node *const nodes[]);

#endif
