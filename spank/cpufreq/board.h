/*
 * The board of a step (preload/lease.h): a memfd of root's on which tasks read the answers to their requests, and on
 * whose bell they ring. They can read it, map it and wait on it, and cannot write: root alone has a mapping that
 * writes, and no descriptor that does.
 */
#pragma once

#include <stdint.h>

#include "preload/lease.h"
#include "spank/base/error.h"

struct board {
	struct mpiwait_board *page; /* NULL: none */
	int descriptor;             /* for reading, close-on-exec; -1: none */
	uint64_t device;
	uint64_t inode;
};

#define BOARD_NONE ((struct board){.descriptor = -1})

/* Makes a board with a reply for each of that many CPUs. Returns 0 with what board_end ends, or negative errno. */
int board_create(uint32_t cpus, struct board *ret_board, struct error *error);

/* Stores the reply of that CPU, and wakes who waits for it. */
void board_reply(const struct board *board, uint32_t cpu, uint64_t reply);

/* Waits until somebody rings, or for so long. A ring of the moment in which it begins is missed. */
void board_wait(const struct board *board, uint64_t most_ns);

void board_ring(const struct board *board);

/* Says that nobody answers any more. */
void board_close(const struct board *board);

void board_end(struct board *board);
