#include "spank/machine/rapl.h"

#include "spank/base/cleanup.h"
#include "spank/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <powercap/powercap-sysfs.h>
#include <powercap/powercap.h>
#include <string.h>

#define CONTROL_TYPE     "intel-rapl"
#define INSTANCES_MAX    64
#define PARTS_MAX        8                 /* parts of an instance: core, uncore, dram */
#define CONSTRAINTS      2                 /* long_term, short_term */
#define TICK_UJ          UINT64_C(1000000) /* energy of 1 ms at 1 kW; processors update a counter once a millisecond */
#define POWER_UNKNOWN_UW UINT64_C(1000000000)

struct rapl {
	size_t count;
	struct rapl_zone zone[RAPL_ZONES_MAX]; /* the members that do not change */
	powercap_zone counter[RAPL_ZONES_MAX]; /* only energy_uj is open */
};

static const char *const kind_names[RAPL_KIND_COUNT] = {"package", "core", "uncore", "dram", "psys"};

const char *rapl_kind_name(enum rapl_kind kind)
{
	return kind_names[kind];
}

int rapl_kind_find(const char *name)
{
	for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
		if (strcmp(name, kind_names[kind]) == 0)
			return kind;
	return -1;
}

const char *rapl_source(void)
{
	return access("/sys/class/powercap/SIMULATED", F_OK) == 0 ? "simulated" : "rapl";
}

/* Reads a zone's name. ids: of the instance and, with depth 2, of its part. */
static bool name_read(const uint32_t ids[], uint32_t depth, char name[RAPL_NAME_MAX])
{
	memset(name, 0, RAPL_NAME_MAX);
	if (powercap_sysfs_zone_get_name(CONTROL_TYPE, ids, depth, name, RAPL_NAME_MAX - 1) < 0)
		return false;
	name[strcspn(name, "\n")] = '\0';
	return true;
}

static uint64_t power_max(const uint32_t ids[], uint32_t depth)
{
	uint64_t most = 0, power;

	for (uint32_t i = 0; i < CONSTRAINTS; i++)
		if (powercap_sysfs_constraint_get_max_power_uw(CONTROL_TYPE, ids, depth, i, &power) == 0 &&
		    power > most)
			most = power;
	return most ? most : POWER_UNKNOWN_UW;
}

/* Opens a zone and adds it. "package-1" and "package-1-die-0" are packages; all other names are kinds. */
static void zone_open(struct rapl *rapl, uint32_t instance, const uint32_t ids[], uint32_t depth)
{
	struct rapl_zone zone = {.instance = instance};
	int kind;

	if (rapl->count == RAPL_ZONES_MAX || !name_read(ids, depth, zone.name))
		return;
	kind = strncmp(zone.name, "package", 7) == 0 ? RAPL_PACKAGE : rapl_kind_find(zone.name);
	if (kind < 0 || powercap_sysfs_zone_get_max_energy_range_uj(CONTROL_TYPE, ids, depth, &zone.range_uj) ||
	    zone.range_uj == 0 ||
	    powercap_zone_file_open(&rapl->counter[rapl->count], POWERCAP_ZONE_FILE_ENERGY_UJ, CONTROL_TYPE, ids, depth,
	                            O_RDONLY | O_CLOEXEC) < 0)
		return;
	zone.kind = (enum rapl_kind)kind;
	zone.power_max_uw = power_max(ids, depth);
	if (!characters_ok(zone.name, RAPL_NAME_LETTERS))
		strcpy(zone.name, kind_names[kind]);
	rapl->zone[rapl->count++] = zone;
}

/*
 * Finds libpowercap's id of an instance. libpowercap writes ids in hexadecimal (0.6, and still in 2024), so that the
 * kernel's instance 10 is its 16. A later release may differ; therefore the id is chosen by the instance's name.
 * Returns false if there is no such instance.
 */
static bool library_instance(uint32_t instance, uint32_t *ret_id)
{
	char path[64], name[RAPL_NAME_MAX], found[RAPL_NAME_MAX], decimal[16];

	snprintf(path, sizeof(path), "/sys/class/powercap/" CONTROL_TYPE "/" CONTROL_TYPE ":%u/name", instance);
	if (proc_line_read(AT_FDCWD, path, name, sizeof(name)) <= 0)
		return false;
	snprintf(decimal, sizeof(decimal), "%u", instance);
	*ret_id = (uint32_t)strtoul(decimal, NULL, 16);
	if (!name_read(ret_id, 1, found) || strcmp(found, name) != 0)
		*ret_id = instance;
	return name_read(ret_id, 1, found) && strcmp(found, name) == 0;
}

int rapl_open(struct rapl **ret_rapl, struct error *error)
{
	cleanup_free struct rapl *rapl = calloc(1, sizeof(*rapl));
	bool found = false;

	if (!rapl)
		return error_set(error, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < INSTANCES_MAX; i++) {
		uint32_t ids[2];

		if (!library_instance(i, &ids[0]))
			continue;
		found = true;
		zone_open(rapl, i, ids, 1);
		for (ids[1] = 0; ids[1] < PARTS_MAX; ids[1]++)
			zone_open(rapl, i, ids, 2);
	}
	if (!found)
		return error_set(error, -ENODEV, "no powercap zones");
	*ret_rapl = take_pointer(rapl);
	return 0;
}

void rapl_close(struct rapl *rapl)
{
	for (size_t i = 0; rapl && i < rapl->count; i++)
		close(rapl->counter[i].energy_uj);
	free(rapl);
}

/* Returns the package of the die that the zone shows, -1 if it shows no die. */
static int die_package(const struct rapl_zone *zone)
{
	int package, die;

	return zone->kind == RAPL_PACKAGE && sscanf(zone->name, "package-%d-die-%d", &package, &die) == 2 ? package
	                                                                                                  : -1;
}

/* Returns how far a counter advanced between two readings. */
static uint64_t counter_advance(const struct rapl_zone *zone, uint64_t from_uj, uint64_t to_uj)
{
	return to_uj - from_uj + (to_uj < from_uj ? zone->range_uj : 0);
}

/* Returns true if both zones show one counter. again_uj: the first zone's counter, read after the second one's. */
static bool is_same_counter(const struct rapl_zone *first, uint64_t again_uj, const struct rapl_zone *second)
{
	uint64_t early_uj = (first->energy_uj + first->range_uj - TICK_UJ % first->range_uj) % first->range_uj;

	return first->range_uj == second->range_uj &&
	       counter_advance(first, early_uj, second->energy_uj) <=
	               counter_advance(first, first->energy_uj, again_uj) + 2 * TICK_UJ;
}

/* Marks an instance's zones as mirrors: its package and the package's parts. */
static void instance_mark(struct rapl_zone zones[], size_t count, uint32_t instance)
{
	for (size_t i = 0; i < count; i++)
		if (zones[i].instance == instance)
			zones[i].mirror = true;
}

static uint64_t read_again(const struct rapl *rapl, const struct rapl_zone *zone)
{
	uint64_t energy_uj = zone->energy_uj;

	for (size_t i = 0; i < rapl->count; i++)
		if (rapl->zone[i].instance == zone->instance && rapl->zone[i].kind == RAPL_PACKAGE)
			powercap_zone_get_energy_uj(&rapl->counter[i], &energy_uj);
	return energy_uj;
}

/* Finds the zones that show the counter of an earlier die of their package, and marks them. */
static void mirrors_mark(const struct rapl *rapl, struct rapl_zone zones[], size_t count)
{
	for (size_t first = 0; first < count; first++) {
		int package = die_package(&zones[first]);

		for (size_t i = first + 1; package >= 0 && !zones[first].mirror && i < count; i++)
			if (!zones[i].mirror && die_package(&zones[i]) == package &&
			    is_same_counter(&zones[first], read_again(rapl, &zones[first]), &zones[i]))
				instance_mark(zones, count, zones[i].instance);
	}
}

size_t rapl_read(const struct rapl *rapl, struct rapl_zone zones[RAPL_ZONES_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < rapl->count; i++) {
		zones[count] = rapl->zone[i];
		count += powercap_zone_get_energy_uj(&rapl->counter[i], &zones[count].energy_uj) == 0;
	}
	mirrors_mark(rapl, zones, count);
	return count;
}
