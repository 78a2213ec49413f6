/*
 * Meters: energy counters other than powercap's. They never wrap, and each has its scope. A job's energy by a meter is
 * the meter's advance from the job's begin on the node to its end there. Pure.
 *
 * meters_read.h reads them; meters_ask.h reads them in another process.
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

enum meter_source { METER_NVML, METER_CRAY, METER_HWMON, METER_RSMI, METER_INTEL, METER_SOURCE_COUNT };
enum meter_scope { METER_GPU, METER_NODE, METER_CPU, METER_MEMORY, METER_SCOPE_COUNT };

/* One counter at one moment. */
struct meter {
	enum meter_source source;
	enum meter_scope scope;
	/*
	 * number within the scope; a GPU has a second one: Slurm numbers GPUs by the order of their files (number) or
	 * by their order on the bus (place)
	 */
	uint32_t number, place;
	bool is_split;             /* the counter covers more than one job may be given */
	char name[METER_NAME_MAX]; /* printable ASCII */
	uint64_t energy_uj;
	/*
	 * time of the counter by its source's clock (of a device: CLOCK_BOOTTIME in us); 0: unknown. METER_INTEL: time
	 * since when it has been read before it could wrap, the same in readings that can be compared
	 */
	uint64_t mark;
};

/* All counters at one moment. */
struct meters {
	char why[METERS_WHY_MAX]; /* why some were not read; "": none is known to be missing */
	uint32_t count;
	struct meter meter[METERS_MAX];
};

/* Returns the same meter at a later time, from *to. NULL: it is missing, restarted, or was not updated since. */
const struct meter *meter_later(const struct meter *meter, const struct meters *to);

/* Returns true if `source` is among the site's sources, "cray+nvml"; "": all. */
bool meter_source_is_wanted(const char *sources, enum meter_source source);

/*
 * Sets *ret_window to the advance of one source's counters of processors, memory and boards between two readings. The
 * window has zones of its own: a socket is a package, the board is psys. Returns false if there is no such counter.
 */
bool meters_window(const struct meters *from, const struct meters *to, enum meter_source source,
                   struct energy_window *ret_window);

/* Returns true if the source counts GPUs one by one, as Slurm gives them to jobs. */
bool meter_source_is_of_devices(enum meter_source source);

/* Returns true for a counter of one GPU. A board's counters of its accelerators are not such. */
bool meter_is_device(const struct meter *meter);

/* Return the names "nvml", "cray", "hwmon", "rsmi", "intel"; "gpu", "node", "cpu", "memory". */
const char *meter_source_name(enum meter_source source);
const char *meter_scope_name(enum meter_scope scope);

/*
 * Returns {"why", "meters": [[source, scope, number, split, name, energy_uj, mark], ...]}; NULL only without memory. A
 * GPU's row goes on with its place, if that is not its number.
 */
json_t *meters_to_json(const struct meters *meters);

/* As meters_to_json, but NULL if nothing was read and no reason is given. */
json_t *meters_to_json_some(const struct meters *meters);

/* Parses that JSON strictly. Returns 0, or -EINVAL with *ret_meters untouched. */
int meters_from_json(const json_t *json, struct meters *ret_meters);
