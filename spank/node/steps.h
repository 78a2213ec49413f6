/*
 * The steps' part of a node's record, made of the files in the job's directory in a bounded time and memory.
 *
 * Files are read in order of their steps' ids. 16 MiB are read with their details, and 48 MiB in all; details fill at
 * most half of the record, which has 4096 steps at most. What is over that is counted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "spank/energy/power.h"
#include "spank/energy/share.h"
#include "spank/energy/watts.h"

#define NODE_RANKS_MAX 65536 /* that are listed singly, over all steps */

struct node_steps {
	char *text; /* objects with commas between them, NULL: no memory */
	size_t length;
	uint32_t count;
	uint32_t summed;   /* of those, how many have lost details */
	uint32_t left_out; /* how many are not there at all */
	struct watts watts;
	struct power_curve curve; /* of their points */
	/* what is used up so far */
	size_t read;
	size_t details;
	size_t ranks;
};

/* Reads them. Freed by node_steps_free. Without memory, which memory_failures says, steps are left out. */
void node_steps_read(int job_directory, const struct energy_share *share, struct node_steps *ret_steps);
void node_steps_free(struct node_steps *steps);

#define cleanup_steps __attribute__((cleanup(node_steps_free)))
