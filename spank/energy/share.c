#include "spank/energy/share.h"

#include <stdio.h>

void energy_share_read(uint32_t cores, uint32_t cores_total, const char *cpus, const char *usable,
                       struct energy_share *ret_share)
{
	double part = cores < cores_total ? (double)cores / cores_total : 1;

	ret_share->node = cores > 0 && cores_total > 0 ? part : -1;
	ret_share->has_packages = cpus[0] && packages_read(cpus, usable, &ret_share->packages) == 0;
}

/* Returns true if a zone of that package mirrors another die's counter: each counter is the whole package's then. */
static bool package_is_mirrored(const struct energy_window *window, int32_t id)
{
	for (uint32_t i = 0; i < window->zone_count; i++) {
		const struct energy_zone *zone = &window->zone[i];
		int32_t number;

		if (zone->kind == RAPL_PACKAGE && zone->problem == ENERGY_MIRRORED &&
		    sscanf(zone->name, "package-%d-", &number) == 1 && number == id)
			return true;
	}
	return false;
}

/*
 * Finds the package and die of an instance by the name of its package zone, "package-1" or "package-1-die-0". die -1:
 * all dies.
 */
static bool package_find(const struct energy_window *window, uint32_t instance, int32_t *ret_id, int32_t *ret_die)
{
	for (uint32_t i = 0; i < window->zone_count; i++) {
		const struct energy_zone *zone = &window->zone[i];

		*ret_die = -1;
		if (zone->kind != RAPL_PACKAGE || zone->instance != instance)
			continue;
		if (sscanf(zone->name, "package-%d-die-%d", ret_id, ret_die) < 1)
			return false;
		if (package_is_mirrored(window, *ret_id))
			*ret_die = -1;
		return true;
	}
	return false;
}

double energy_share_of(const struct energy_share *share, const struct energy_window *window,
                       const struct energy_zone *zone)
{
	struct package package;
	int32_t id, die;

	if (share->node >= 1 || !share->has_packages || !package_find(window, zone->instance, &id, &die) ||
	    !packages_sum(&share->packages, id, die, &package) || package.cpus == 0)
		return share->node;
	return (double)package.own / package.cpus;
}

bool energy_share_uj(const struct energy_share *share, const struct energy_window *window, uint64_t *ret_own_uj)
{
	double own_uj = 0;

	if (share->node < 0)
		return false;
	for (uint32_t i = 0; i < window->zone_count; i++)
		if (energy_kind_counts(window->has, window->zone[i].kind))
			own_uj += energy_share_of(share, window, &window->zone[i]) * (double)window->zone[i].used_uj;
	*ret_own_uj = own_uj < (double)INT64_MAX ? (uint64_t)(own_uj + 0.5) : INT64_MAX;
	return true;
}
