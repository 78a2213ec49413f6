/*
 * Saving in records: the power in looks and beside them (spank/energy/saving.h). Written by a node, read, added up over
 * nodes, printed for the job. Pure.
 *
 * All nodes of a job look at the same moments, and therefore at the same phases of the program. Their errors are not
 * independent, and are added up linearly.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "spank/energy/saving.h"

#define RECORD_SAVING_SHARED "shared with other jobs"
#define RECORD_SAVING_OTHERS "the joules are by other counters"

/* Looks of a node or a job. Zeros: no look was seen. */
struct record_saving {
	size_t nodes;    /* nodes whose power in looks is known */
	double looks;    /* looks read, by the node that has most */
	double look_w;   /* mean power in looks, summed over nodes */
	double beside_w; /* mean power beside looks, summed over nodes */
	double error_w;  /* half of the 95 % interval of beside_w, summed over nodes */
	bool at_least;   /* ranks slept in looks too: the saving is a lower bound */
	char why[65];    /* why a node does not know its saving; "": all nodes do */
};

/* How much longer periods (spank/record/waits/cost.h) are because ranks sleep, as a part of their length. */
struct record_saving_cost {
	bool known;
	double longer; /* 0.01: one percent longer */
	double error;  /* half of the 95 % interval of longer */
};

/*
 * Returns a node's {"looks", "look_mw", "beside_mw", "error_mw", "at_least"} or {"why"}; NULL if no look was seen, or
 * without memory. refusal: why the node must not tell what it saw; NULL: it may.
 */
json_t *record_saving_write(const struct saving *saving, const char *refusal);

/*
 * Reads a node's "saving", hostile input; absent is none. *ret_saving must be zeroed. Returns true if a node can have
 * written it.
 */
bool record_saving_read(const json_t *json, struct record_saving *ret_saving);

/* Adds the looks of a node to *sum. */
void record_saving_add(struct record_saving *sum, const struct record_saving *node);

/*
 * Sets "saved" or "saved_why" in the job's energy; nothing if no look was seen. reported: the job's nodes in the
 * record.
 */
void record_saving_print(json_t *energy, const struct record_saving *sum, size_t reported,
                         const struct record_saving_cost *cost);
