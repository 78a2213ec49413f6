#include "spank/energy/watts.h"

#include <errno.h>
#include <stddef.h>

#include "spank/base/json.h"

#define SUM_MAX 1e30

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

json_t *watts_to_json(const struct watts *watts)
{
	json_t *json = json_array();

	for (uint32_t i = 0; i < watts->count; i++) {
		const double *number = (const double *)&watts->package[i].sums;
		json_t *row = json_pack("[i]", watts->package[i].id);

		for (size_t j = 0; j < FIT_NUMBERS; j++)
			json_array_append_new(row, json_real(number[j]));
		json_array_append_new(json, row);
	}
	return json;
}

int watts_from_json(const json_t *json, struct watts *ret_watts)
{
	struct watts watts = {.count = (uint32_t)json_array_size(json)};

	if (!json_is_array(json) || json_array_size(json) > PACKAGES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < watts.count; i++) {
		const json_t *row = json_array_get(json, i);
		double *number = (double *)&watts.package[i].sums;
		uint64_t id;

		if (json_array_size(row) != FIT_NUMBERS + 1 || !integer_of(json_array_get(row, 0), INT32_MAX, &id))
			return -EINVAL;
		for (size_t j = 0; j < FIT_NUMBERS; j++)
			if (!number_of(json_array_get(row, j + 1), SUM_MAX, &number[j]))
				return -EINVAL;
		watts.package[i].id = (int32_t)id;
	}
	*ret_watts = watts;
	return 0;
}
