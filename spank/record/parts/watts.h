/*
 * The fits of watts.h in records: written by a node, read from a node's, added up over nodes, printed in the job's.
 * Pure.
 *
 * Watts of a state are the mean over the packages that know them, joules the sum; intervals are added as those of
 * independent errors.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "spank/energy/share.h"
#include "spank/energy/watts.h"

#define RECORD_WATTS_ITEMS 6

struct record_watts {
	double packages; /* on which ranks ran */
	double known;    /* of those, with a fit that is significant */
	const char *why; /* of a package without; NULL: all have one */
	struct {
		double count;
		double sum;
		double square; /* of the intervals, summed */
	} item[RECORD_WATTS_ITEMS];
};

/*
 * The fits of the packages that were wholly the job's, for the node's record, null where no package had ranks:
 *   [{"package": N, "why": "not significant"},
 *    {"package": N, "why": "", "watts": {"asleep": [W, +-], ...}, "waiting_j": [J, +-], ...}]
 * An unknown value is left out.
 */
json_t *record_watts_write(const struct watts *watts, const struct energy_share *share);

/* From the node's "watts"; absent or null: none, *ret_watts is zeros. Returns whether it is what a node writes. */
bool record_watts_read(const json_t *json, struct record_watts *ret_watts);

void record_watts_add(struct record_watts *watts, const struct record_watts *node);

/* The job's "watts"; NULL where no package had ranks. */
json_t *record_watts_print(const struct record_watts *watts);
