/* The sums of watts.h as JSON, both ways, and the fits for the node's record. */
#include "spank/watts.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define NUMBERS_MAX (FIT_STATE_COUNT * FIT_STATE_COUNT)
#define SUM_MAX     1e30

static json_t *numbers_to_json(const double *numbers, size_t count)
{
	json_t *json = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(json, json_real(numbers[i]));
	return json;
}

json_t *watts_to_json(const struct watts *watts)
{
	json_t *json = json_array();

	for (uint32_t i = 0; json && i < watts->count; i++) {
		const struct fit_sums *sums = &watts->package[i].sums;

		json_array_append_new(json, json_pack("[i, f, f, o, o, o]", watts->package[i].id, sums->samples,
		                                      sums->yy, numbers_to_json(&sums->xx[0][0], NUMBERS_MAX),
		                                      numbers_to_json(sums->xy, FIT_STATE_COUNT),
		                                      numbers_to_json(sums->rank_s, FIT_STATE_COUNT)));
	}
	return json;
}

static bool number_get(const json_t *json, double *ret_number)
{
	*ret_number = json_number_value(json);
	return json_is_number(json) && *ret_number >= 0 && *ret_number < SUM_MAX;
}

static bool numbers_get(const json_t *json, double *numbers, size_t count)
{
	if (json_array_size(json) != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!number_get(json_array_get(json, i), &numbers[i]))
			return false;
	return true;
}

int watts_from_json(const json_t *json, struct watts *ret_watts)
{
	struct watts watts = {.count = (uint32_t)json_array_size(json)};

	if (!json_is_array(json) || json_array_size(json) > PACKAGES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < watts.count; i++) {
		const json_t *row = json_array_get(json, i);
		struct fit_sums *sums = &watts.package[i].sums;
		json_int_t id = json_integer_value(json_array_get(row, 0));

		if (!json_is_integer(json_array_get(row, 0)) || id < 0 || id > INT32_MAX ||
		    !number_get(json_array_get(row, 1), &sums->samples) ||
		    !number_get(json_array_get(row, 2), &sums->yy) ||
		    !numbers_get(json_array_get(row, 3), &sums->xx[0][0], NUMBERS_MAX) ||
		    !numbers_get(json_array_get(row, 4), sums->xy, FIT_STATE_COUNT) ||
		    !numbers_get(json_array_get(row, 5), sums->rank_s, FIT_STATE_COUNT))
			return -EINVAL;
		watts.package[i].id = (int32_t)id;
	}
	*ret_watts = watts;
	return 0;
}

static void value_set(json_t *object, const char *name, const struct fit_value *value)
{
	if (value->known && isfinite(value->value) && isfinite(value->plus_minus))
		json_object_set_new(object, name, json_pack("[f, f]", value->value, value->plus_minus));
}

static json_t *fit_to_json(int32_t id, const struct fit_sums *sums)
{
	struct fit fit;
	json_t *json, *states;

	fit_solve(sums, &fit);
	json = json_pack("{s:i, s:s}", "package", id, "why", fit.known ? "" : fit.why);
	if (!json || !fit.known)
		return json;
	states = json_object();
	for (int state = 0; state < FIT_STATE_COUNT; state++)
		value_set(states, fit_state_name((enum fit_state)state), &fit.watts[state]);
	json_object_set_new(json, "watts", states);
	value_set(json, "waiting_j", &fit.waiting_j);
	value_set(json, "saved_j", &fit.saved_j);
	value_set(json, "could_save_j", &fit.could_save_j);
	return json;
}

/* Whether nobody else's work was in its power, as far as allocations say. */
static bool is_own(const struct energy_share *share, int32_t id)
{
	struct package package;

	if (share->node >= 1)
		return true;
	return share->has_packages && packages_sum(&share->packages, id, -1, &package) && package.own == package.cpus;
}

json_t *watts_fit(const struct watts *watts, const struct energy_share *share)
{
	json_t *fits = watts->count > 0 ? json_array() : json_null();

	for (uint32_t i = 0; i < watts->count; i++) {
		int32_t id = watts->package[i].id;

		if (is_own(share, id))
			json_array_append_new(fits, fit_to_json(id, &watts->package[i].sums));
		else
			json_array_append_new(fits,
			                      json_pack("{s:i, s:s}", "package", id, "why", "shared with other jobs"));
	}
	return fits;
}
