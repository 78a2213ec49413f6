/*
 * Look ranks: what the ranks of one step say of their looks (preload/contract/looks.h), and how long they have slept,
 * read from the stats segment as hostile input. It reads a part of each slot that slots.h reads whole.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/looks.h"

#define LOOK_RANKS_KINDS (2 * LOOKS_LEVELS + 2) /* numbers that looks_tell gives */

/* The threads that wait, in ranks that run. A thread that hardly sleeps has no say in when all look. */
struct look_ranks {
	uint32_t threads;
	bool apart;                      /* they do not look together: of several launches, or without an account */
	uint64_t seed;                   /* of their looks */
	uint32_t kinds;                  /* of those that sleep; 0: none has told of looks */
	uint64_t told[LOOK_RANKS_KINDS]; /* looks_tell's numbers, ascending */
	uint64_t asleep_ns;              /* summed over threads; a claim, which may be anything */
};

/* Returns 0 or -errno, *ret_ranks untouched. */
int look_ranks_read(int segment, struct look_ranks *ret_ranks);

/* Returns true if by both the same number of threads looks together, in the same windows. */
bool look_ranks_same(const struct look_ranks *a, const struct look_ranks *b);
