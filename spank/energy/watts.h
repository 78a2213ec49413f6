/*
 * Watts: what the fit is fed with, package by package, as sums that can be added up and written down. watts_feed.h
 * makes them of a step's samples.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "spank/energy/fit.h"
#include "spank/machine/processors.h"

/* The sums of each package. */
struct watts {
	uint32_t count;
	struct watts_package {
		int32_t id;
		struct fit_sums sums;
	} package[PACKAGES_MAX];
};

/* That package, a new one if it is not there; NULL: its id is negative, or there are too many. */
struct watts_package *watts_package_of(struct watts *watts, int32_t id);

/* Adds the sums of a step to those of the job. */
void watts_merge(struct watts *watts, const struct watts *step);

/* [[package, the numbers of its sums in their order], ...]; NULL: no memory. */
json_t *watts_to_json(const struct watts *watts);

/* Strict. Returns 0 or -EINVAL, *ret_watts untouched. */
int watts_from_json(const json_t *json, struct watts *ret_watts);
