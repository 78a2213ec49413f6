#include "spank/energy/watts.h"

#include <errno.h>
#include <stddef.h>

#include "spank/base/json.h"

#define NUMBERS_MAX (FIT_STATE_COUNT * FIT_STATE_COUNT)
#define SUM_MAX     1e30

struct watts_package *watts_package_of(struct watts *watts, int32_t id)
{
	for (uint32_t i = 0; i < watts->count; i++)
		if (watts->package[i].id == id)
			return &watts->package[i];
	if (id < 0 || watts->count == PACKAGES_MAX)
		return NULL;
	watts->package[watts->count] = (struct watts_package){.id = id};
	return &watts->package[watts->count++];
}

void watts_merge(struct watts *watts, const struct watts *step)
{
	for (uint32_t i = 0; i < step->count; i++) {
		struct watts_package *package = watts_package_of(watts, step->package[i].id);

		if (package)
			fit_merge(&package->sums, &step->package[i].sums);
	}
}

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

static bool numbers_get(const json_t *json, double *numbers, size_t count)
{
	if (json_array_size(json) != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!number_of(json_array_get(json, i), SUM_MAX, &numbers[i]))
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
		    !number_of(json_array_get(row, 1), SUM_MAX, &sums->samples) ||
		    !number_of(json_array_get(row, 2), SUM_MAX, &sums->yy) ||
		    !numbers_get(json_array_get(row, 3), &sums->xx[0][0], NUMBERS_MAX) ||
		    !numbers_get(json_array_get(row, 4), sums->xy, FIT_STATE_COUNT) ||
		    !numbers_get(json_array_get(row, 5), sums->rank_s, FIT_STATE_COUNT))
			return -EINVAL;
		watts.package[i].id = (int32_t)id;
	}
	*ret_watts = watts;
	return 0;
}
