/*
 * Board: the counters of the whole board that Cray's node controllers keep, in /sys/cray/pm_counters. They count whole
 * joules, ten times a second, and never wrap.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"

#define BOARD_ACCELERATORS 8
#define BOARD_COUNTERS_MAX (3 + BOARD_ACCELERATORS)

enum board_part { BOARD_NODE, BOARD_CPU, BOARD_MEMORY, BOARD_ACCELERATOR };

/* One counter of the board. */
struct board_counter {
	enum board_part part;
	uint32_t number; /* number of the accelerator, else 0 */
	uint64_t energy_uj;
	uint64_t mark; /* the controller's time in us, else its freshness; differs in a newer count */
};

/* Returns true if the node has these counters. */
bool board_there(void);

/*
 * Reads the node's counters, all of one update: the controller's freshness must be the same before and after, which is
 * tried five times. Returns the number of counters; 0 with the reason in *error.
 */
size_t board_read(struct board_counter ret_counters[BOARD_COUNTERS_MAX], struct error *error);
