#include "spank/record/waits/cost.h"

#include "spank/record/parts/number.h"

#define SUM_MAX    INT64_C(1000000000000000000) /* bound of a sum in us: 1e12 s */
#define DEVIATIONS 2                            /* standard deviations in half of a 95 % interval */

void record_cost_add(struct record_cost *sum, const struct record_cost *more)
{
	sum->slept_us += more->slept_us;
	sum->more_us += more->more_us;
	sum->deviation_us += more->deviation_us;
	sum->windows = fmax(sum->windows, more->windows);
	sum->slowdown_ppm = fmax(sum->slowdown_ppm, more->slowdown_ppm);
}

static json_t *whole(double value, int64_t most)
{
	return json_integer((json_int_t)fmax(fmin(value, (double)most), -(double)most));
}

void record_cost_write(json_t *wait, const struct record_cost *cost)
{
	if (cost->slept_us < 1)
		return;
	json_object_set_new(
	        wait, "cost",
	        json_pack("{s:o, s:o, s:o, s:o, s:o}", "slept_us", whole(cost->slept_us, SUM_MAX), "more_us",
	                  whole(cost->more_us, SUM_MAX), "deviation_us", whole(cost->deviation_us, SUM_MAX), "windows",
	                  whole(cost->windows, JSON_COUNT_MAX), "slowdown_ppm", whole(cost->slowdown_ppm, COST_PPM)));
}

static bool signed_of(const json_t *value, double most, double *ret_value)
{
	*ret_value = (double)json_integer_value(value);
	return json_is_integer(value) && fabs(*ret_value) <= most;
}

bool record_cost_read(const json_t *wait, struct record_cost *sum)
{
	const json_t *json = json_object_get(wait, "cost");
	struct record_cost cost;

	if (!json)
		return true;
	if (!whole_of(json_object_get(json, "slept_us"), SUM_MAX, &cost.slept_us) ||
	    !signed_of(json_object_get(json, "more_us"), cost.slept_us, &cost.more_us) ||
	    !whole_of(json_object_get(json, "deviation_us"), (int64_t)cost.slept_us, &cost.deviation_us) ||
	    !whole_of(json_object_get(json, "windows"), JSON_COUNT_MAX, &cost.windows) ||
	    !whole_of(json_object_get(json, "slowdown_ppm"), COST_PPM, &cost.slowdown_ppm))
		return false;
	record_cost_add(sum, &cost);
	return true;
}

bool record_cost_part(const struct record_cost *cost, double *ret_longer, double *ret_error)
{
	if (cost->slept_us < 1)
		return false;
	*ret_longer = cost->more_us / cost->slept_us;
	*ret_error = DEVIATIONS * cost->deviation_us / cost->slept_us;
	return true;
}

void record_cost_print(json_t *wait, const struct record_cost *sum)
{
	json_t *json;

	if (sum->slept_us < 1)
		return;
	json = json_pack("{s:o, s:o, s:o, s:o}", "percent", number(100 * sum->more_us / sum->slept_us, 3), "error",
	                 number(100 * DEVIATIONS * sum->deviation_us / sum->slept_us, 3), "windows",
	                 number(sum->windows, 0), "seconds", record_seconds(sum->slept_us / 1e6));
	object_set_some(json, "slowdown", number(sum->slowdown_ppm * 100 / COST_PPM, 4));
	json_object_set_new(wait, "cost", json);
}
