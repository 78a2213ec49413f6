/*
 * Power: how a node's energy went on while a job was there, in a bounded number of points however long that was. Pure.
 *
 * Each sampler keeps points of the node's accumulator: when, and how much so far. All of a node feed the same one, so
 * the points of all steps lie on one curve, whoever took them and whenever; its slope is the power. What lies beside a
 * point at which a counter was lost, or between two with a gap, is not known and never guessed.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/energy/accumulator.h"

#define POWER_POINTS_MAX 64 /* of a step */
#define POWER_PARTS_MAX  64 /* of a node or a job */

struct power_point {
	uint64_t at_ns;   /* CLOCK_MONOTONIC */
	uint64_t used_uj; /* by the whole node, since the accumulator began */
	uint32_t gaps;    /* of its zones, summed */
	bool whole;       /* every zone counted */
};

/* A step's. When they are full every other one goes, and from then on they are twice as far apart. {0} at first. */
struct power_points {
	uint32_t count;
	uint64_t spacing_ns;
	struct power_point point[POWER_POINTS_MAX];
};

/* The points of all steps of a job on a node, in any order. {0} at first, freed by power_curve_free. */
struct power_curve {
	size_t count;
	struct power_point *point;
};

/* A time in equal parts: the joules in each, over how many seconds, and for how many more they are not known. */
struct power_parts {
	double length_s;
	uint32_t count;
	struct power_part {
		double joules;
		double known_s;
		double missing_s;
	} part[POWER_PARTS_MAX];
};

/* The next sample of a step. The last point is always the latest sample. */
void power_add(struct power_points *points, const struct energy_snapshot *snapshot);

/* [[at_ns, used_uj, gaps, whole], ...]; NULL: no memory. */
json_t *power_to_json(const struct power_points *points);

/* Strict. Returns 0 or -EINVAL, *ret_points untouched. */
int power_from_json(const json_t *json, struct power_points *ret_points);

/* Without memory the points are left out. */
void power_curve_add(struct power_curve *curve, const struct power_points *points);
void power_curve_free(struct power_curve *curve);

/* So many watts, negative: not known, from one time to another, in seconds since the parts begin; cut to their time. */
void power_spread(struct power_parts *parts, double from_s, double to_s, double watts);

/*
 * The node's mean power in as many equal parts as there are intervals between the points, but none shorter than a
 * second. Returns false where that is fewer than two parts. Sorts the points.
 */
bool power_curve_parts(struct power_curve *curve, struct power_parts *ret_parts);
