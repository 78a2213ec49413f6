#include "spank/energy/watts.h"

#include <stddef.h>

struct fit_sums *watts_sums_of(struct watts *watts, int32_t id)
{
	for (uint32_t i = 0; i < watts->count; i++)
		if (watts->package[i].id == id)
			return &watts->package[i].sums;
	if (watts->count == PACKAGES_MAX)
		return NULL;
	watts->package[watts->count] = (struct watts_package){.id = id};
	return &watts->package[watts->count++].sums;
}

void watts_merge(struct watts *watts, const struct watts *step)
{
	for (uint32_t i = 0; i < step->count; i++) {
		struct fit_sums *sums = watts_sums_of(watts, step->package[i].id);

		if (sums)
			fit_merge(sums, &step->package[i].sums);
	}
}
