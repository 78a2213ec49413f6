/*
 * What this release makes of a site's arguments and of this host, as JSON for "mpi-wait check". Changes nothing.
 */
#pragma once

#include <jansson.h>

#include "spank/policy/site.h"

/*
 * {"release", "node", "library", "policies_directory", "rungs": {NAME: why not, "": it can}, "tsc_khz",
 * "policies": [{"name", "summary", "used", "why", "allowed"}], "left_out": the first policy file that was refused,
 * "energy": {"source", "why", "zones": [{"name", "kind", "energy_uj", "range_uj", "power_max_uw"}]}}.
 * Zones are only read by root. Returns a new object, or NULL without memory.
 */
json_t *probe_json(const struct site *site);
