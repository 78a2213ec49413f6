/*
 * Saving in records: the power in looks and beside them (spank/energy/saving.h), written by a node, read from its
 * record, added up over nodes, printed in the job's. Pure.
 *
 * All nodes of a job look at the same time, at the same phases of the program. So their errors are no chance apart, and
 * are added up.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "spank/energy/saving.h"

#define RECORD_SAVING_SHARED "shared with other jobs"
#define RECORD_SAVING_OTHERS "the joules are by other counters"

/* The looks of a node or a job. Zeros: no look was seen. */
struct record_saving {
	size_t nodes;    /* of which it is known */
	double looks;    /* of the node that has most */
	double look_w;   /* summed over nodes, as are the next two */
	double beside_w; /* mean power beside looks */
	double error_w;  /* half of the 95 % interval of beside_w */
	bool at_least;   /* ranks slept in looks, too */
	char why[65];    /* of a node of which nothing is known; "": there is none */
};

/* By how much longer steps are in which ranks sleep, as a part of them, and half of its 95 % interval. */
struct record_saving_cost {
	bool known;
	double longer;
	double error;
};

/*
 * A node's: {"looks", "look_mw", "beside_mw", "error_mw", "at_least"}, or {"why"}; NULL: no look was seen, or no
 * memory. refusal: why the node tells nothing of what it saw; NULL where it does.
 */
json_t *record_saving_write(const struct saving *saving, const char *refusal);

/* From a node's "saving", hostile input; absent: none. *ret_saving is zeros before. Returns whether a node writes so.
 */
bool record_saving_read(const json_t *json, struct record_saving *ret_saving);

void record_saving_add(struct record_saving *sum, const struct record_saving *node);

/* Sets "saved" in the job's energy, or "saved_why"; nothing where no look was seen. */
void record_saving_print(json_t *energy, const struct record_saving *sum, size_t reported,
                         const struct record_saving_cost *cost);
