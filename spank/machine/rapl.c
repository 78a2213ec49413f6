#include "spank/machine/rapl.h"

#include "spank/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <powercap/powercap-rapl.h>
#include <powercap/powercap-sysfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSTANCES_MAX    64
#define POWER_UNKNOWN_UW UINT64_C(1000000000)

struct rapl {
	uint32_t instance_count;
	powercap_rapl_pkg instance[INSTANCES_MAX];
	size_t zone_count;
	struct rapl_zone zone[RAPL_ZONES_MAX]; /* what does not change */
};

static const char *const kind_names[RAPL_KIND_COUNT] = {"package", "core", "uncore", "dram", "psys"};

static const powercap_rapl_zone kind_zones[RAPL_KIND_COUNT] = {
        POWERCAP_RAPL_ZONE_PACKAGE, POWERCAP_RAPL_ZONE_CORE, POWERCAP_RAPL_ZONE_UNCORE,
        POWERCAP_RAPL_ZONE_DRAM,    POWERCAP_RAPL_ZONE_PSYS,
};

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

bool rapl_name_is_plain(const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < length; i++)
		if (name[i] < ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
			return false;
	return length > 0;
}

const char *rapl_source(void)
{
	return access("/sys/class/powercap/SIMULATED", F_OK) == 0 ? "simulated" : "rapl";
}

/*
 * libpowercap opens some ten files per zone, without O_CLOEXEC; only the counters are needed from here on. Its structs
 * are nothing but descriptors, 0 for a file that there is not.
 */
static void keep_counters(powercap_rapl_pkg *package)
{
	const int counters[] = {package->pkg.zone.energy_uj, package->core.zone.energy_uj,
	                        package->uncore.zone.energy_uj, package->dram.zone.energy_uj,
	                        package->psys.zone.energy_uj};
	int *descriptor = (int *)package;

	for (size_t i = 0; i < sizeof(*package) / sizeof(int); i++) {
		bool counts = false;

		for (size_t j = 0; j < RAPL_KIND_COUNT; j++)
			counts |= descriptor[i] == counters[j];
		if (descriptor[i] <= 0)
			continue;
		if (counts) {
			fcntl(descriptor[i], F_SETFD, FD_CLOEXEC);
		} else {
			close(descriptor[i]);
			descriptor[i] = 0;
		}
	}
}

static uint64_t power_max(const powercap_rapl_pkg *package, powercap_rapl_zone zone)
{
	const powercap_rapl_constraint constraints[] = {POWERCAP_RAPL_CONSTRAINT_LONG, POWERCAP_RAPL_CONSTRAINT_SHORT};
	uint64_t most = 0;

	for (size_t i = 0; i < sizeof(constraints) / sizeof(constraints[0]); i++) {
		uint64_t power = 0;

		if (powercap_rapl_get_max_power_uw(package, zone, constraints[i], &power) == 0 && power > most)
			most = power;
	}
	return most ? most : POWER_UNKNOWN_UW;
}

static void zone_describe(struct rapl *rapl, uint32_t instance, enum rapl_kind kind)
{
	const powercap_rapl_pkg *package = &rapl->instance[instance];
	struct rapl_zone zone = {.kind = kind, .instance = instance};
	powercap_rapl_zone which = kind_zones[kind];

	if (rapl->zone_count == RAPL_ZONES_MAX || powercap_rapl_is_zone_supported(package, which) != 1 ||
	    powercap_rapl_get_max_energy_range_uj(package, which, &zone.range_uj) || zone.range_uj == 0)
		return;
	if (powercap_rapl_get_name(package, which, zone.name, sizeof(zone.name)) < 0)
		zone.name[0] = '\0';
	zone.name[strcspn(zone.name, "\n")] = '\0';
	if (!rapl_name_is_plain(zone.name))
		snprintf(zone.name, sizeof(zone.name), "%s", kind_names[kind]);
	zone.power_max_uw = power_max(package, which);
	rapl->zone[rapl->zone_count++] = zone;
}

/*
 * The kernel's instance 10 is libpowercap's 16: it writes the number in hexadecimal (0.6, and still in 2024). Whatever
 * a later one does, the one whose name is the instance's is meant. It counts instances up to the first that is missing,
 * too, so it is not asked how many there are. Returns whether there is such an instance.
 */
static bool library_instance(uint32_t instance, uint32_t *ret_id)
{
	char path[64], name[RAPL_NAME_MAX], decimal[16];
	uint32_t ids[2] = {instance, 0};

	snprintf(path, sizeof(path), "/sys/class/powercap/intel-rapl/intel-rapl:%u/name", instance);
	if (proc_line_read(AT_FDCWD, path, name, sizeof(name)) <= 0)
		return false;
	snprintf(decimal, sizeof(decimal), "%u", instance);
	ids[1] = (uint32_t)strtoul(decimal, NULL, 16);
	for (size_t i = 0; i < 2; i++) {
		char found[RAPL_NAME_MAX] = "";

		if (powercap_sysfs_zone_get_name("intel-rapl", &ids[i], 1, found, sizeof(found)) < 0)
			continue;
		found[strcspn(found, "\n")] = '\0';
		*ret_id = ids[i];
		if (strcmp(found, name) == 0)
			return true;
	}
	return false;
}

int rapl_open(struct rapl **ret_rapl, struct error *error)
{
	struct rapl *rapl = calloc(1, sizeof(*rapl));

	if (!rapl)
		return error_set(error, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < INSTANCES_MAX; i++) {
		uint32_t id;

		if (!library_instance(i, &id))
			continue;
		if (powercap_rapl_init(id, &rapl->instance[i], 1))
			memset(&rapl->instance[i], 0, sizeof(rapl->instance[i]));
		rapl->instance_count = i + 1;
		for (int kind = 0; kind < RAPL_KIND_COUNT; kind++)
			zone_describe(rapl, i, (enum rapl_kind)kind);
		keep_counters(&rapl->instance[i]);
	}
	if (rapl->instance_count == 0) {
		free(rapl);
		return error_set(error, -ENODEV, "no powercap zones");
	}
	*ret_rapl = rapl;
	return 0;
}

void rapl_close(struct rapl *rapl)
{
	if (!rapl)
		return;
	for (uint32_t i = 0; i < rapl->instance_count; i++)
		powercap_rapl_destroy(&rapl->instance[i]);
	free(rapl);
}

size_t rapl_read(const struct rapl *rapl, struct rapl_zone zones[RAPL_ZONES_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < rapl->zone_count; i++) {
		const struct rapl_zone *zone = &rapl->zone[i];

		zones[count] = *zone;
		if (powercap_rapl_get_energy_uj(&rapl->instance[zone->instance], kind_zones[zone->kind],
		                                &zones[count].energy_uj) == 0)
			count++;
	}
	return count;
}
