/*
 * Throttle: how often this node's processors had to slow down, by heat or by a power limit, from the kernel's counters
 * in thermal_throttle. A node that slowed down explains ranks that others wait for.
 *
 * Counts are summed by package: over its cores (whose threads show the same count), and the package's own count once.
 * AMD's and most virtual processors have no such counters.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/machine/processors.h"

enum throttle_kind {
	THROTTLE_CORE,
	THROTTLE_PACKAGE,
	THROTTLE_CORE_POWER,
	THROTTLE_PACKAGE_POWER,
	THROTTLE_KIND_COUNT
};

struct throttle_package {
	int32_t id;
	uint32_t cores; /* online cores whose counts were read */
	uint64_t events[THROTTLE_KIND_COUNT];
};

/* Counts by package. count 0: no counters. */
struct throttle {
	uint32_t count;
	struct throttle_package package[PACKAGES_MAX];
};

/*
 * Returns the kernel's name without "_count": "core_throttle", "package_throttle", "core_power_limit" or
 * "package_power_limit".
 */
const char *throttle_kind_name(enum throttle_kind kind);

/* Reads the counts of all online processors. */
void throttle_read(struct throttle *ret_throttle);

/*
 * Sums the events between two readings, on packages with processors in `list` ("0-3,8"), or on all if it is "". Returns
 * false, with ret_events untouched, if there are no counters, or if the readings are of different cores: a core that is
 * taken offline or online takes its count since the boot with it. A count that went back tells of that too.
 */
bool throttle_between(const struct throttle *from, const struct throttle *to, const char *list,
                      uint64_t ret_events[THROTTLE_KIND_COUNT]);

/*
 * Returns [[package, cores, core_throttle, package_throttle, core_power_limit, package_power_limit], ...], or NULL
 * without memory.
 */
json_t *throttle_to_json(const struct throttle *throttle);

/* Parses that JSON strictly. Returns 0, or -EINVAL with *ret_throttle untouched. */
int throttle_from_json(const json_t *json, struct throttle *ret_throttle);
