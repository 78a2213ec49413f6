/* Reads the meters in this process. A driver may make it hang, and a driver's library may crash it. */
#pragma once

#include "spank/energy/meters.h"

/* Reads the wanted sources ("cray+nvml", "": all) that the node has. ret_meters->why says why one is missing. */
void meters_read(const char *sources, struct meters *ret_meters);
