#include "spank/node/callsites.h"

#include "spank/node/call_names.h"

#include <stdio.h>
#include <string.h>

/* Of a name that no file should have, nothing is kept but that it is one. */
static void module_name(const struct mpiwait_module *module, char name[MPIWAIT_MODULE_NAME])
{
	snprintf(name, MPIWAIT_MODULE_NAME, "%.*s", (int)sizeof(module->name) - 1, module->name);
	for (char *at = name; *at; at++)
		if (!strchr(ROW_MODULE_LETTERS, *at) || (at == name && *at == '.'))
			*at = '_';
}

static void module_of(const struct mpiwait_sites *sites, uint16_t number, struct record_row *site)
{
	const struct mpiwait_module *module = &sites->module[number - 1];
	uint32_t size = module->build_id_size <= MPIWAIT_BUILD_ID ? module->build_id_size : 0;

	module_name(module, site->name);
	for (uint32_t i = 0; i < size; i++)
		snprintf(site->build_id + 2 * (size_t)i, 3, "%02x", module->build_id[i]);
}

void callsites_of(struct record_rows *sum, const struct mpiwait_sites *sites, uint32_t lanes, int32_t rank,
                  struct bounds *bounds)
{
	for (size_t i = 0; i <= MPIWAIT_SITES; i++) {
		const struct mpiwait_site *from = &sites->site[i];
		struct record_row site = {.most_rank = rank};
		uint64_t wait_us;

		if (from->waits == 0 && from->wait_ns == 0)
			continue;
		if (i < MPIWAIT_SITES && from->module >= 1 && from->module <= MPIWAIT_MODULES)
			module_of(sites, from->module, &site);
		site.place = (int64_t)bounded(bounds, from->offset, INT64_MAX);
		snprintf(site.call, sizeof(site.call), "%s", call_name(from->row));
		site.number[0] = (double)bounded(bounds, from->waits, BOUNDS_COUNT_MAX);
		wait_us = bounded(bounds, from->wait_ns, lanes * (bounds->now_ns - bounds->begun_ns)) / 1000;
		site.number[1] = site.number[2] = (double)wait_us;
		rows_put(ROWS_SITES, sum, &site);
	}
}
