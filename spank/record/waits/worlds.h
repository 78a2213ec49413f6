/*
 * Worlds: which of a job's ranks belong to one MPI_COMM_WORLD. Pure.
 *
 * A rank is a number in a world. A step may run several: mpirun twice, a program and what it spawns, or, where MPI was
 * not started by srun, a program of one rank for each task. Ranks of two worlds are not compared, and have equal
 * numbers.
 *
 * A node writes "worlds": [[launch, size, ranks], ...], in the order in which they were seen; a rank names its own by
 * its place there. Launch is the same number on all nodes of a world, 0 where that is not known. Ranks are the users'
 * claim, and so are worlds: a table that does not add up is refused.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/record/waits/rank_list.h"

/* Counts one more rank in the table of a step's "wait" on a node. Returns the place of its world there. */
uint32_t record_worlds_put(json_t *wait, uint64_t launch, uint32_t size);

/* Takes away which worlds they were, where they are several. */
void record_worlds_shorten(json_t *wait);

/*
 * Reads a step's, hostile input, whose ranks have been read; the list is the caller's to free. Absent: an older
 * node's. Returns whether the table is what a node writes.
 */
bool record_worlds_read(const json_t *wait, struct record_ranks *ranks);

/* Returns whether a node could tell any launch. */
bool record_worlds_known(const struct record_ranks *ranks);

/* One node's, to those of the job, in which there must be room. Returns the place of the first. */
uint32_t record_worlds_add(struct record_ranks *sum, const struct record_ranks *from, uint32_t node, uint32_t step);

/*
 * Makes one of the parts that nodes know of a world, and puts the worlds and the ranks in order: step after step, in
 * each as they began, and there by number. Returns false, and leaves the ranks in another order, if there is nothing
 * to tell: each step has one world, whose numbers have no gap, or older nodes do not tell.
 */
bool record_worlds_settle(struct record_ranks *ranks);

/* The job's, NULL where there is nothing to tell; names: of steps. */
json_t *record_worlds_print(const struct record_ranks *ranks, const struct record_names *names);
