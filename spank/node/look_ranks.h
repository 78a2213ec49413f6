/*
 * Look ranks: what the ranks of one step say of their looks (preload/budget/looks.h), and how long they have slept,
 * read from the stats segment as hostile input. It reads a part of each slot that slots.h reads whole.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of all threads that wait, in ranks that run. */
struct look_ranks {
	uint32_t threads;
	bool differ;        /* they do not look together, or some sleep whenever they like */
	uint64_t seed;      /* of their looks */
	uint64_t told;      /* looks_tell's number; 0: none has told one */
	uint64_t asleep_ns; /* summed over threads; a claim, which may be anything */
};

/* Returns 0 or -errno, *ret_ranks untouched. */
int look_ranks_read(int segment, struct look_ranks *ret_ranks);

/* Returns true if both say that the same ranks' threads look together, in the same windows. */
bool look_ranks_same(const struct look_ranks *a, const struct look_ranks *b);
