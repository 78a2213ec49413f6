/*
 * Throttle: how often this node's processors had to slow down, by heat or by a power limit, as the kernel counts it in
 * thermal_throttle. A node that did explains ranks that the others wait for.
 *
 * Counts are summed by package: a core's over its cores (their threads show the same count), the package's own once.
 * Processors without the counters (AMD's, most virtual ones) have none.
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
	uint64_t events[THROTTLE_KIND_COUNT];
};

/* count 0: there are no counters. */
struct throttle {
	uint32_t count;
	struct throttle_package package[PACKAGES_MAX];
};

/* "core_throttle", "package_throttle", "core_power_limit", "package_power_limit": the kernel's, without "_count". */
const char *throttle_kind_name(enum throttle_kind kind);

void throttle_read(struct throttle *ret_throttle);

/*
 * The events between two readings, on the packages of which list ("0-3,8") has processors, or on all where it is "".
 * A count that went back (a processor was taken offline) starts at 0. Returns false where there are no counters.
 */
bool throttle_between(const struct throttle *from, const struct throttle *to, const char *list,
                      uint64_t ret_events[THROTTLE_KIND_COUNT]);

/* [[package, core_throttle, package_throttle, core_power_limit, package_power_limit], ...]; NULL: no memory. */
json_t *throttle_to_json(const struct throttle *throttle);

/* Strict. Returns 0 or -EINVAL, *ret_throttle untouched. */
int throttle_from_json(const json_t *json, struct throttle *ret_throttle);
