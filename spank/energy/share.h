/*
 * Share: the part of a node's energy that counts as a job's.
 *
 * Each zone is shared by cores: zone energy x the job's cores / the zone's cores. The zone of a package or die, and its
 * dram zone, has that package's or die's cores; the platform has all of the node's. Only cores that jobs can have
 * count; cores that Slurm keeps from all jobs belong to nobody. Pure but for packages_read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/accumulator.h"
#include "spank/machine/processors.h"

/* The job's share of a node. */
struct energy_share {
	double node;       /* the job's part of the node's cores; negative: unknown */
	bool has_packages; /* packages is valid; else `node` holds for every zone */
	struct packages packages;
};

/*
 * Finds the job's share. cores, cores_total: cores of the job, and cores of the node that jobs can have; 0: unknown.
 * cpus: the job's processors, "": unknown. usable: processors that jobs can have, "": all.
 */
void energy_share_read(uint32_t cores, uint32_t cores_total, const char *cpus, const char *usable,
                       struct energy_share *ret_share);

/* Returns the job's part of one zone of the window. */
double energy_share_of(const struct energy_share *share, const struct energy_window *window,
                       const struct energy_zone *zone);

/*
 * Returns the job's energy in the window, over the kinds that make up a node's energy. Returns false if the job's cores
 * are unknown.
 */
bool energy_share_uj(const struct energy_share *share, const struct energy_window *window, uint64_t *ret_own_uj);
