/*
 * Worlds: which of a job's ranks belong to one MPI_COMM_WORLD. Pure.
 *
 * A rank is a number in a world. A step may run several worlds: two mpirun, a program and the one that it spawns, or
 * one program of one rank per task if srun did not start MPI. Ranks of two worlds have equal numbers and cannot be
 * compared.
 *
 * A node writes "worlds": [[launch, size, ranks], ...], in the order in which it saw them; a rank names its world by
 * the index there. `launch` is the same number on all nodes of a world, 0 if unknown. Ranks are the users' claim, and
 * so are worlds: a table that does not add up is refused.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/record/waits/rank_list.h"

/* Counts one more rank in "worlds" of a node's "wait" of a step. Returns the index of its world there. */
uint32_t record_worlds_put(json_t *wait, uint64_t launch, uint32_t size);

/* Replaces several worlds of a node's "wait" by one that is unknown. */
void record_worlds_shorten(json_t *wait);

/*
 * Reads the worlds of a step's "wait", hostile input, after its ranks were read. The list is the caller's to free in
 * any case. Absent: an older node wrote it. Returns true if a node can have written the table.
 */
bool record_worlds_read(const json_t *wait, struct record_ranks *ranks);

/* Returns true if some node knew a launch. */
bool record_worlds_known(const struct record_ranks *ranks);

/* Appends one node's worlds to the job's list, which must have room. Returns the index of the first. */
uint32_t record_worlds_add(struct record_ranks *sum, const struct record_ranks *from, uint32_t node, uint32_t step);

/*
 * Joins the parts of each world that its nodes know, and sorts worlds and ranks: by step, then by begin, then by
 * number. Returns false, with the ranks in another order, if the record need not show worlds: each step has one
 * complete world, or older nodes did not write worlds.
 */
bool record_worlds_settle(struct record_ranks *ranks);

/* Returns the job's "worlds", or NULL if the record need not show them. names: of steps. */
json_t *record_worlds_print(const struct record_ranks *ranks, const struct record_names *names);
