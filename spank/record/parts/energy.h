/*
 * Energy in records: written by a node, read, added up over nodes, printed for the job. Pure.
 *
 * A node writes {"source", "gaps", "zones_uj", "dropped": [[zone, why], ...]} and, where they apply,
 *   "mirrored"     number of zones that did not count because they show another die's counter
 *   "own_uj"       the job's part of the energy
 *   "not_counted"  ["gpus"] if the node has some
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/energy/accumulator.h"
#include "spank/energy/share.h"

/* Energy of one node, of one step on a node, or of a job. Zeros: nothing was added. */
struct record_energy {
	bool present;   /* the node read its counters */
	uint32_t nodes; /* nodes in the sums: those on which the job's part is known */
	bool share;     /* some node was shared with other jobs */
	bool simulated;
	char source[16];    /* "rapl", "hwmon" or "cray"; "mixed" if nodes differ */
	double joules;      /* energy of the job */
	double node_joules; /* energy of the whole nodes, of the kinds of zones that make it up */
	double gaps;
	bool lacks_gpus; /* some node has graphics processors that were not read */
	double mirrored; /* zones that show another zone's counter, and are not in the sums */
	bool has[RAPL_KIND_COUNT];
	double zone_j[RAPL_KIND_COUNT];
	json_t *dropped; /* dropped zones as they are printed, in a job's sum the first 16; NULL: none */
};

/* Returns a node's "energy", or NULL without memory. */
json_t *record_energy_write(const struct energy_window *window, const struct energy_share *share);

/* Notes in a node's "energy" that the energy of its graphics processors is not in it. */
void record_energy_lacks_gpus(json_t *json);

/*
 * Reads the "energy" of node `node`, hostile input; absent or null is none. `share` is the part of the node's cores
 * that the job had, negative if unknown; it is used if the node wrote no "own_uj". *ret_energy must be zeroed, and is
 * freed with record_energy_free in any case. Returns true if a node can have written it.
 */
bool record_energy_read(const json_t *json, double share, const char *node, struct record_energy *ret_energy);

/* Frees what *energy holds, but not *energy itself. */
void record_energy_free(struct record_energy *energy);

/* Adds the energy of a node to *sum; ignores its figures if the job's part is unknown. */
void record_energy_add(struct record_energy *sum, const struct record_energy *from);

/* Returns the job's "energy"; null if none of the `reported` nodes could read its counters. */
json_t *record_energy_print(const struct record_energy *sum, size_t reported);
