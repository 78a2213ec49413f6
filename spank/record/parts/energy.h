/*
 * Energy in records: written by a node, read, added up over nodes, printed in the job's. Pure.
 *
 * A node's: {"source", "gaps", "zones_uj", "dropped": [[zone, why], ...], "mirrored" where zones of
 * dies show one counter: how many did not count, "own_uj" where the job's share is known,
 * "not_counted": ["gpus"] where the node has some}.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/energy/accumulator.h"
#include "spank/energy/share.h"

/* Of one node, one step on a node, or a job. Zeros: none yet. */
struct record_energy {
	bool present;   /* counters were read */
	uint32_t nodes; /* whose energy is in the sums: those of which the job's part is known too */
	bool share;     /* some node was not wholly the job's */
	bool simulated;
	char source[16];    /* "rapl", "hwmon", "cray"; "mixed" of nodes that differ */
	double joules;      /* the job's */
	double node_joules; /* the whole nodes', of the kinds that make them up */
	double gaps;
	bool lacks_gpus; /* some node has graphics processors, whose energy was not read */
	double mirrored; /* zones that show another zone's counter, and are in no sum */
	bool has[RAPL_KIND_COUNT];
	double zone_j[RAPL_KIND_COUNT];
	json_t *dropped; /* as it is printed, of a job so many as are shown; NULL: none */
};

/* NULL: no memory. */
json_t *record_energy_write(const struct energy_window *window, const struct energy_share *share);

/* Notes in a node's energy that the node has graphics processors, whose energy is not in it. */
void record_energy_lacks_gpus(json_t *json);

/*
 * From "energy" of that node, hostile input; absent or null: none. share: the part of the node's cores that is the
 * job's, which holds where the node did not count for itself; negative: not known. Returns whether it is what a node
 * writes. *ret_energy is zeros before.
 */
bool record_energy_read(const json_t *json, double share, const char *node, struct record_energy *ret_energy);
void record_energy_free(struct record_energy *energy);

void record_energy_add(struct record_energy *sum, const struct record_energy *from);

/* The job's, of so many nodes that reported: null where none of them could read its counters. */
json_t *record_energy_print(const struct record_energy *sum, size_t reported);
