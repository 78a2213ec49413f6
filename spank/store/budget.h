/*
 * Budget: how much of the node's disk the outbox may take, and how long a record may be for that. While slurmdbd or the
 * spool is away for days, new records lose details, then all but their identity, energy and sums.
 *
 * The outbox is counted now and then only; the sum is kept in /run and grows with each record in between, so that a
 * job's end costs the same however many records wait.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct budget {
	int node;      /* directory of the node below /run */
	uint64_t most; /* bytes that the outbox may take */
	uint64_t used;
	uint64_t counted_s; /* wall clock of the last count */
};

/* Reads the sum, or counts. An outbox that cannot be counted has none. */
void budget_init(int node, int outbox, struct budget *ret_budget);

/* Returns how many bytes the next record may have. */
size_t budget_record_most(const struct budget *budget);

/* Adds a record of so many bytes to the sum. */
void budget_add(struct budget *budget, size_t bytes);
