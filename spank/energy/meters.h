/*
 * Meters: energy counters beside powercap that never wrap, each with the scope that it has. A job's energy by one is
 * what the meter advanced from the job's begin on the node to its end there.
 *
 * meters_read.h reads them, and meters_ask.h lets a process apart do so. Pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/energy/accumulator.h"

#define METERS_MAX       96
#define METERS_WHY_MAX   64
#define METER_NAME_MAX   64
#define METER_NUMBER_MAX 4095

enum meter_source { METER_NVML, METER_CRAY, METER_HWMON, METER_RSMI, METER_SOURCE_COUNT };
enum meter_scope { METER_GPU, METER_NODE, METER_CPU, METER_MEMORY, METER_SCOPE_COUNT };

struct meter {
	enum meter_source source;
	enum meter_scope scope;
	uint32_t number;           /* Slurm's number of a GPU, else one of several of that scope */
	bool is_split;             /* its counter is of more than may be given to one job */
	char name[METER_NAME_MAX]; /* printable ASCII */
	uint64_t energy_uj;
	uint64_t mark; /* when it was brought up to date, by a clock of its source; of a device CLOCK_BOOTTIME in us; 0:
	                  not told */
};

struct meters {
	char why[METERS_WHY_MAX]; /* why some were not read, "": nothing is known to be missing */
	uint32_t count;
	struct meter meter[METERS_MAX];
};

/*
 * Returns the meter of *to that *meter was at an earlier time. NULL: there is none, it began anew, or its source did
 * not bring it up to date meanwhile.
 */
const struct meter *meter_later(const struct meter *meter, const struct meters *to);

/* Sources as sites name them, with "+" between them; "": all. Returns true if that one is among them. */
bool meter_source_is_wanted(const char *sources, enum meter_source source);

/*
 * Sets *ret_window to what one source's counters of processors, memory and boards advanced between two readings. The
 * window has zones of its own: sockets are packages, the board is psys. Returns false where there is no such counter.
 */
bool meters_window(const struct meters *from, const struct meters *to, enum meter_source source,
                   struct energy_window *ret_window);

/* Returns true for a counter of one GPU; a board has its own of each of its accelerators. */
bool meter_is_device(const struct meter *meter);

/* "nvml", "cray", "hwmon", "rsmi"; "gpu", "node", "cpu", "memory". */
const char *meter_source_name(enum meter_source source);
const char *meter_scope_name(enum meter_scope scope);

/* {"why", "meters": [[source, scope, number, split, name, energy_uj, mark], ...]}; NULL only without memory. */
json_t *meters_to_json(const struct meters *meters);

/* The same, or NULL where nothing was read, and nothing says why. */
json_t *meters_to_json_some(const struct meters *meters);

/* Strict. Returns 0 or -EINVAL, *ret_meters untouched. */
int meters_from_json(const json_t *json, struct meters *ret_meters);
