/*
 * The counters that Cray's node controllers keep of the whole board, /sys/cray/pm_counters. They are counted in whole
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

struct board_counter {
	enum board_part part;
	uint32_t number; /* of an accelerator, else 0 */
	uint64_t energy_uj;
	uint64_t mark; /* the controller's time of the counter in us, else its freshness: another one is newer */
};

bool board_there(void);

/*
 * Reads the counters there are, all of one update: the files' freshness is the same before and after, which is tried
 * five times. Returns how many were read; 0: none, and error says why.
 */
size_t board_read(struct board_counter ret_counters[BOARD_COUNTERS_MAX], struct error *error);
