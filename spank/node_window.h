/* A window of a node's energy as its record says it. */
#ifndef MPIWAIT_SPANK_NODE_WINDOW_H
#define MPIWAIT_SPANK_NODE_WINDOW_H

#include <jansson.h>

#include "spank/energy.h"
#include "spank/energy_share.h"

/* {"source", "gaps", "zones_uj", "dropped": [[zone, why], ...], "own_uj" where the share is known}. NULL: no memory. */
json_t *node_window_to_json(const struct energy_window *window, const struct energy_share *share);

#endif
