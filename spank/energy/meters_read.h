/* Reads the meters, in this process. A driver may make it hang, and a driver's library may make it crash. */
#pragma once

#include "spank/energy/meters.h"

/* Reads those of these sources ("cray+nvml", "": all) that there are; why says what is missing. */
void meters_read(const char *sources, struct meters *ret_meters);
