/*
 * Budget: how much of the node's disk the outbox may take, and how long the next record may therefore be. If slurmdbd
 * or the spool is away for days, new records first lose details, and later all but their identity, energy and sums.
 *
 * The outbox is counted only now and then. In between, the sum lies in /run and grows with each record, so that a job's
 * end costs the same however many records wait.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct budget {
	int node;           /* descriptor of the node's directory below /run; the caller's */
	uint64_t most;      /* bytes that the outbox may take */
	uint64_t used;      /* bytes that it takes */
	uint64_t counted_s; /* when it was last counted, in seconds since the epoch */
};

/* Reads the sum, or, if it is missing or old, counts the outbox. One that cannot be read counts as empty. */
void budget_init(int node, int outbox, struct budget *ret_budget);

/* Returns how many bytes the next record may have. */
size_t budget_record_most(const struct budget *budget);

/* Adds a record of `bytes` bytes to the sum. */
void budget_add(struct budget *budget, size_t bytes);
