#include "spank/energy/power.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1e9

/* Returns the point of the node's energy curve at a snapshot. */
static struct power_point point_of(const struct energy_snapshot *snapshot)
{
	struct power_point point = {.at_ns = snapshot->at_ns, .whole = true};
	bool has[RAPL_KIND_COUNT] = {false};

	for (uint32_t i = 0; i < snapshot->zone_count; i++)
		has[snapshot->zone[i].kind] = true;
	for (uint32_t i = 0; i < snapshot->zone_count; i++) {
		const struct energy_zone *zone = &snapshot->zone[i];

		if (!energy_kind_counts(has, zone->kind))
			continue;
		point.used_uj += zone->used_uj;
		point.gaps += zone->gaps;
		point.whole &= zone->problem == ENERGY_FINE || zone->problem == ENERGY_MIRRORED;
	}
	return point;
}

/* Drops every other point. The spacing is chosen so that jitter does not make three samples of what two can be. */
static void thin(struct power_points *points, uint64_t now_ns)
{
	points->count /= 2;
	for (uint32_t i = 0; i < points->count; i++)
		points->point[i] = points->point[2 * i];
	points->spacing_ns = (now_ns - points->point[0].at_ns) / (points->count + 1);
}

void power_add(struct power_points *points, const struct energy_snapshot *snapshot)
{
	struct power_point now = point_of(snapshot);
	const struct power_point *last = points->count > 0 ? &points->point[points->count - 1] : NULL;

	if (last && now.at_ns <= last->at_ns)
		return;
	if (points->count > 1 && last->at_ns - last[-1].at_ns < points->spacing_ns)
		points->count--;
	else if (points->count == POWER_POINTS_MAX)
		thin(points, now.at_ns);
	points->point[points->count++] = now;
}

json_t *power_to_json(const struct power_points *points)
{
	json_t *json = json_array();

	for (uint32_t i = 0; json && i < points->count; i++) {
		const struct power_point *point = &points->point[i];

		json_array_append_new(json,
		                      json_pack("[I, I, I, b]", (json_int_t)point->at_ns, (json_int_t)point->used_uj,
		                                (json_int_t)point->gaps, (int)point->whole));
	}
	return json;
}

static bool point_get(json_t *json, struct power_point *ret_point)
{
	json_int_t at, used, gaps;
	int whole;

	if (json_unpack(json, "[I, I, I, b!]", &at, &used, &gaps, &whole) || at < 0 || used < 0 || gaps < 0 ||
	    gaps > UINT32_MAX)
		return false;
	*ret_point = (struct power_point){(uint64_t)at, (uint64_t)used, (uint32_t)gaps, whole};
	return true;
}

int power_from_json(const json_t *json, struct power_points *ret_points)
{
	struct power_points points = {.count = (uint32_t)json_array_size(json)};

	if (!json_is_array(json) || json_array_size(json) > POWER_POINTS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < points.count; i++)
		if (!point_get(json_array_get(json, i), &points.point[i]))
			return -EINVAL;
	*ret_points = points;
	return 0;
}

void power_curve_add(struct power_curve *curve, const struct power_points *points)
{
	struct power_point *grown;

	if (points->count == 0)
		return;
	grown = realloc(curve->point, (curve->count + points->count) * sizeof(*grown));
	if (!grown)
		return;
	curve->point = grown;
	memcpy(curve->point + curve->count, points->point, points->count * sizeof(*grown));
	curve->count += points->count;
}

void power_curve_free(struct power_curve *curve)
{
	free(curve->point);
	*curve = (struct power_curve){0};
}

void power_spread(struct power_parts *parts, double from_s, double to_s, double watts)
{
	double width_s = parts->length_s / parts->count;
	uint32_t first;

	from_s = fmax(from_s, 0);
	to_s = fmin(to_s, parts->length_s);
	if (!(from_s < to_s))
		return;
	first = (uint32_t)fmin(from_s / width_s, parts->count - 1);
	for (uint32_t i = first; i < parts->count && i * width_s < to_s; i++) {
		double seconds = fmin(to_s, (i + 1) * width_s) - fmax(from_s, i * width_s);

		if (!(seconds > 0))
			continue;
		if (watts < 0) {
			parts->part[i].missing_s += seconds;
			continue;
		}
		parts->part[i].joules += watts * seconds;
		parts->part[i].known_s += seconds;
	}
}

static int point_compare(const void *left, const void *right)
{
	const struct power_point *a = left, *b = right;

	return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

/* Returns the power between two points, negative if unknown. A restarted counter has less than before. */
static double watts_between(const struct power_point *a, const struct power_point *b)
{
	if (!a->whole || !b->whole || a->gaps != b->gaps || b->used_uj < a->used_uj)
		return -1;
	return (double)(b->used_uj - a->used_uj) / (double)(b->at_ns - a->at_ns) * 1e3;
}

bool power_curve_parts(struct power_curve *curve, struct power_parts *ret_parts)
{
	struct power_parts parts = {0};
	const struct power_point *point = curve->point;

	if (curve->count < 3)
		return false;
	qsort(curve->point, curve->count, sizeof(*curve->point), point_compare);
	parts.length_s = (double)(point[curve->count - 1].at_ns - point[0].at_ns) / SECOND_NS;
	parts.count = (uint32_t)fmin(fmin((double)curve->count - 1, POWER_PARTS_MAX), parts.length_s);
	if (parts.count < 2)
		return false;
	for (size_t i = 1; i < curve->count; i++)
		if (point[i].at_ns > point[i - 1].at_ns)
			power_spread(&parts, (double)(point[i - 1].at_ns - point[0].at_ns) / SECOND_NS,
			             (double)(point[i].at_ns - point[0].at_ns) / SECOND_NS,
			             watts_between(&point[i - 1], &point[i]));
	*ret_parts = parts;
	return true;
}
