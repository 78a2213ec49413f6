/*
 * What a job's record says of the ranks' waits, printed from the sums. Pure.
 *
 * The waits of single ranks are exact while they fit. Where they do not, the record has quantiles (each is the wait of
 * one rank, the nearest by order) and the ranks that waited most and least.
 */
#ifndef MPIWAIT_SPANK_RECORD_WAIT_H
#define MPIWAIT_SPANK_RECORD_WAIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "spank/record_node.h"
#include "spank/record_number.h"
#include "spank/record_sum.h"

#define RECORD_SECONDS_MAX 1e12

/* How much of a record is printed. */
struct record_detail {
	bool ranks;  /* the wait of every rank */
	bool asleep; /* and how much of it each of them slept */
	bool nodes;  /* and where it ran */
	bool sizes;  /* of messages */
	size_t steps;
	size_t calls;
};

static inline json_t *record_seconds(double value)
{
	return number(value < RECORD_SECONDS_MAX ? value : RECORD_SECONDS_MAX, 3);
}

/* The record's "wait": JSON's null where no rank was seen. nodes are those that were summed. */
json_t *record_wait_print(const struct sum *sum, const struct record_node *const nodes[],
                          const struct record_detail *detail);

#endif
