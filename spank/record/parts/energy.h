/*
 * Energy in records: written by a node, read, added up over nodes, printed in the job's. Pure.
 *
 * A node's: {"source", "gaps", "zones_uj", "dropped": [[zone, why], ...], "own_uj" where the job's share is known}.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/energy/accumulator.h"
#include "spank/energy/share.h"

struct record_energy {
	bool present;
	bool simulated;
	uint32_t gaps;
	bool has[RAPL_KIND_COUNT];
	double zone_j[RAPL_KIND_COUNT];
	bool has_own; /* else the part of the cores holds */
	double own_j;
	json_t *dropped; /* [[zone, why], ...]; NULL: none */
};

struct sum_energy {
	uint32_t nodes; /* whose energy is in the sums */
	bool share;     /* some node was not wholly the job's */
	bool simulated;
	double joules;
	double node_joules;
	double gaps;
	bool has[RAPL_KIND_COUNT];
	double zone_j[RAPL_KIND_COUNT];
	json_t *dropped; /* as it is printed; NULL: none */
};

/* NULL: no memory. */
json_t *record_energy_write(const struct energy_window *window, const struct energy_share *share);

/* From "energy", hostile input; absent or null: none. Returns whether it is what a node writes. */
bool record_energy_read(const json_t *json, struct record_energy *ret_energy);
void record_energy_free(struct record_energy *energy);

/* The whole node's: of the kinds that make it up. */
double record_energy_all_j(const struct record_energy *energy);

/* The job's: as its node counted it, or by share, its part of the cores. */
double record_energy_own_j(const struct record_energy *energy, double share);

/* One node's; share negative: not known. */
void record_energy_add(struct sum_energy *sum, const struct record_energy *from, double share, const char *node);

/* The job's, of so many nodes that reported: null where none of them could read its counters. */
json_t *record_energy_print(const struct sum_energy *sum, size_t reported);
