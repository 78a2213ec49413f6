/*
 * RAPL: the energy counters of this node, read through libpowercap.
 *
 * Every zone of every top-level instance: package, core, uncore, dram and psys (an instance of its own). A zone is
 * what its name says it is. Counters wrap; accumulator.h makes sums of them.
 *
 * Processors whose packages have several dies may show one counter per package once for each die (AMD Zen 1 and 2).
 * Counters are told apart by reading: of two dies of a package, the second one's counter is the first one's if it lies
 * between two readings of the first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/base/json.h"

#define RAPL_ZONES_MAX 256
#define RAPL_NAME_MAX  32

/* What a zone's name is made of; one with any other is called by its kind. */
#define RAPL_NAME_LETTERS JSON_LETTERS JSON_DIGITS "._-"

enum rapl_kind { RAPL_PACKAGE, RAPL_CORE, RAPL_UNCORE, RAPL_DRAM, RAPL_PSYS, RAPL_KIND_COUNT };

struct rapl_zone {
	char name[RAPL_NAME_MAX]; /* the kernel's, "package-0" */
	enum rapl_kind kind;
	uint32_t instance;     /* of intel-rapl:N */
	uint64_t energy_uj;    /* 0 <= energy_uj <= range_uj */
	uint64_t range_uj;     /* the largest value before the counter begins at 0 again */
	uint64_t power_max_uw; /* what the zone can draw at most; 1000 W where its constraints do not say */
	bool mirror;           /* it is of a die that shows the counter of an earlier zone of its package */
};

struct rapl;

/*
 * Opens the zones' counters, close-on-exec, so that no program that the process starts can read them (energy_uj is
 * root's alone: it leaks secrets). Returns 0, -ENODEV ("no powercap zones") or -ENOMEM.
 */
int rapl_open(struct rapl **ret_rapl, struct error *error);
void rapl_close(struct rapl *rapl);

/*
 * Reads every zone; one that cannot be read is left out. Name, range and power are as they were at the opening,
 * mirror is found out anew. Returns how many zones were read.
 */
size_t rapl_read(const struct rapl *rapl, struct rapl_zone zones[RAPL_ZONES_MAX]);

/* "simulated" where the tree says that it is a simulation, else "rapl". */
const char *rapl_source(void);

/* "package", "core", ... and back: -1 for no such kind. */
const char *rapl_kind_name(enum rapl_kind kind);
int rapl_kind_find(const char *name);
