/*
 * Whose energy: of a node's, the part that is counted as a job's.
 *
 * A share by cores of each zone: zone energy x the job's cores / the zone's cores. A package's zone has that package's
 * (or die's) cores, its dram zone the same, the platform all of the node's. Only cores that jobs can have count: what
 * Slurm keeps from all jobs is nobody's part. Pure but for packages_read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/accumulator.h"
#include "spank/machine/processors.h"

struct energy_share {
	double node;       /* the job's part of the node's cores, negative: not known */
	bool has_packages; /* else the node's part holds for every zone */
	struct packages packages;
};

/*
 * cores, cores_total: the job's, and those that jobs can have on the node, 0: not known. cpus: the job's processors,
 * "": not known. usable: those that jobs can have, "": all.
 */
void energy_share_read(uint32_t cores, uint32_t cores_total, const char *cpus, const char *usable,
                       struct energy_share *ret_share);

/* The job's part of one zone of the window. */
double energy_share_of(const struct energy_share *share, const struct energy_window *window,
                       const struct energy_zone *zone);

/* The job's energy in the window: of the kinds that make up a node's. Returns false where its cores are not known. */
bool energy_share_uj(const struct energy_share *share, const struct energy_window *window, uint64_t *ret_own_uj);
