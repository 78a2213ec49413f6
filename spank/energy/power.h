/*
 * Power: a node's energy over the time of a job, in a bounded number of points. Pure.
 *
 * Each sampler keeps points of the node's accumulator: time and energy so far. All samplers of a node feed one
 * accumulator, so that the points of all steps lie on one curve, whose slope is the power. The power is unknown, and
 * never guessed, next to a point at which a counter was lost, and between two points with a gap.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/energy/accumulator.h"

#define POWER_POINTS_MAX 64 /* points of a step */
#define POWER_PARTS_MAX  64 /* parts of a node's or a job's time */

/* A point of a node's energy curve. */
struct power_point {
	uint64_t at_ns;   /* CLOCK_MONOTONIC */
	uint64_t used_uj; /* energy of the whole node since the accumulator began */
	uint32_t gaps;    /* gaps, summed over zones */
	bool whole;       /* every zone counted */
};

/*
 * Points of a step. If they are full every other point is dropped, and later ones are twice as far apart. {0} at first.
 */
struct power_points {
	uint32_t count;
	uint64_t spacing_ns; /* least distance of two points, but for the last */
	struct power_point point[POWER_POINTS_MAX];
};

/* Points of all steps of a job on a node, in any order. {0} at first, freed by power_curve_free. */
struct power_curve {
	size_t count;
	struct power_point *point;
};

/*
 * A time in equal parts: the joules in each, the seconds over which they are known, and the seconds in which they are
 * not.
 */
struct power_parts {
	double length_s;
	uint32_t count;
	struct power_part {
		double joules;
		double known_s;
		double missing_s;
	} part[POWER_PARTS_MAX];
};

/* Adds a step's next sample. The last point is always the latest sample. */
void power_add(struct power_points *points, const struct energy_snapshot *snapshot);

/* Returns [[at_ns, used_uj, gaps, whole], ...], or NULL without memory. */
json_t *power_to_json(const struct power_points *points);

/* Parses that JSON strictly. Returns 0, or -EINVAL with *ret_points untouched. */
int power_from_json(const json_t *json, struct power_points *ret_points);

/* Adds the points of a step. Without memory they are left out. */
void power_curve_add(struct power_curve *curve, const struct power_points *points);
void power_curve_free(struct power_curve *curve);

/*
 * Adds `watts` (negative: unknown) from one time to another. Times are seconds since the parts begin, cut to their
 * length.
 */
void power_spread(struct power_parts *parts, double from_s, double to_s, double watts);

/*
 * Computes the node's mean power in equal parts, as many as there are intervals between points, none shorter than a
 * second. Returns false if that makes fewer than two parts. Sorts the points.
 */
bool power_curve_parts(struct power_curve *curve, struct power_parts *ret_parts);
