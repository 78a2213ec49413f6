/*
 * RAPL: the energy counters of this node, read through libpowercap.
 *
 * The zones of every top-level instance are read: package, core, uncore, dram and psys (an instance of its own). A
 * zone's name tells its kind. Counters wrap; accumulator.h makes sums of them.
 *
 * Some processors with several dies per package show the package's counter once for each die (AMD Zen 1 and 2). Such
 * zones are detected by reading: if the counter of a second die lies between two readings of the first die's, it is the
 * same counter.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/base/json.h"

#define RAPL_ZONES_MAX 256
#define RAPL_NAME_MAX  32

/* Characters of a zone's name. A zone with any other is called by its kind. */
#define RAPL_NAME_LETTERS JSON_LETTERS JSON_DIGITS "._-"

enum rapl_kind { RAPL_PACKAGE, RAPL_CORE, RAPL_UNCORE, RAPL_DRAM, RAPL_PSYS, RAPL_KIND_COUNT };

/* One zone, and its counter at one reading. */
struct rapl_zone {
	char name[RAPL_NAME_MAX]; /* the kernel's name, "package-0" */
	enum rapl_kind kind;
	uint32_t instance;     /* N of intel-rapl:N */
	uint64_t energy_uj;    /* 0 <= energy_uj <= range_uj */
	uint64_t range_uj;     /* largest value before the counter restarts at 0 */
	uint64_t power_max_uw; /* greatest power of the zone; 1000 W if its constraints do not say */
	bool mirror;           /* the zone shows the counter of an earlier die of its package */
};

struct rapl;

/*
 * Opens the zones' counters, close-on-exec: no program that this process starts may read them, because energy_uj leaks
 * secrets and is root's alone. Returns 0, -ENODEV ("no powercap zones") or -ENOMEM.
 */
int rapl_open(struct rapl **ret_rapl, struct error *error);
void rapl_close(struct rapl *rapl);

/*
 * Reads every zone that can be read. Name, range and power are those of the opening; mirror is detected anew. Returns
 * the number of zones.
 */
size_t rapl_read(const struct rapl *rapl, struct rapl_zone zones[RAPL_ZONES_MAX]);

/* Returns "simulated" if the powercap tree says that it is a simulation, else "rapl". */
const char *rapl_source(void);

/* Convert a kind to its name ("package", "core", ...) and back; -1: no such kind. */
const char *rapl_kind_name(enum rapl_kind kind);
int rapl_kind_find(const char *name);
