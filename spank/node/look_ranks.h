/*
 * Look ranks: what the ranks of one step tell of their looks (preload/contract/looks.h), and how long they slept. Reads
 * a part of each slot that slots.h reads whole, as hostile input.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/looks.h"

#define LOOK_RANKS_KINDS (2 * LOOKS_LEVELS + 2) /* number of results of looks_tell */

/* The waiting threads of running ranks. Threads that hardly sleep have no say in when all look. */
struct look_ranks {
	uint32_t threads;                /* threads that told of looks */
	bool apart;                      /* the ranks do not look together: several launches, or no account */
	uint64_t seed;                   /* seed of the ranks' looks */
	uint32_t kinds;                  /* number of entries in told; 0: no thread that sleeps told of looks */
	uint64_t told[LOOK_RANKS_KINDS]; /* results of looks_tell by threads that sleep, ascending */
	uint64_t asleep_ns;              /* sum over threads; an unchecked claim */
};

/* Reads the ranks' looks from the stats segment. Returns 0, or -errno with *ret_ranks untouched. */
int look_ranks_read(int segment, struct look_ranks *ret_ranks);

/* Returns true if in both the same number of threads looks together, in the same windows. */
bool look_ranks_same(const struct look_ranks *a, const struct look_ranks *b);
