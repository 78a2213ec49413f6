/*
 * What is kept of a step's waits (slots_to_json) where there is no room for all: its sums. Pure.
 *
 * Each of these only takes away; to take away twice is the same as once. NULL and null: nothing.
 */
#ifndef MPIWAIT_SPANK_STEP_SUMS_H
#define MPIWAIT_SPANK_STEP_SUMS_H

#include <jansson.h>

/* Instead of the list of ranks what can still be merged: how many, their sums, the least and the most waiting. */
void step_sums_ranks(json_t *wait);

/* The same, and no profile. */
void step_sums_keep(json_t *wait);

/* The same, and no functions, hooks and flags: a bounded number of numbers. */
void step_sums_least(json_t *wait);

#endif
