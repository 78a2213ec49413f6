#include "spank/rapl.h"

#include "spank/cleanup.h"
#include "spank/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <powercap/powercap-rapl.h>
#include <stdbool.h>
#include <string.h>

#define INSTANCES_MAX    32
#define POWER_UNKNOWN_UW UINT64_C(1000000000)

struct rapl {
	uint32_t instance_count;
	powercap_rapl_pkg instance[INSTANCES_MAX];
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

const char *rapl_source(void)
{
	return access("/sys/class/powercap/SIMULATED", F_OK) == 0 ? "simulated" : "rapl";
}

/* libpowercap opens without O_CLOEXEC; its structs are nothing but descriptors, 0 for a file that there is not. */
static void close_on_exec(powercap_rapl_pkg *package)
{
	const int *descriptor = (const int *)package;

	for (size_t i = 0; i < sizeof(*package) / sizeof(int); i++)
		if (descriptor[i] > 0)
			fcntl(descriptor[i], F_SETFD, FD_CLOEXEC);
}

/* The library counts instances up to the first that is missing, but one that went leaves a hole. */
static bool is_there(uint32_t instance)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/powercap/intel-rapl/intel-rapl:%u", instance);
	return access(path, F_OK) == 0;
}

int rapl_open(struct rapl **ret_rapl, struct error *error)
{
	struct rapl *rapl = calloc(1, sizeof(*rapl));

	if (!rapl)
		return error_set(error, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < INSTANCES_MAX && stage_runs("energy"); i++) {
		if (!is_there(i))
			continue;
		if (powercap_rapl_init(i, &rapl->instance[i], 1))
			memset(&rapl->instance[i], 0, sizeof(rapl->instance[i]));
		close_on_exec(&rapl->instance[i]);
		rapl->instance_count = i + 1;
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

static bool zone_read(const struct rapl *rapl, uint32_t instance, enum rapl_kind kind, struct rapl_zone *ret_zone)
{
	const powercap_rapl_pkg *package = &rapl->instance[instance];
	struct rapl_zone zone = {.kind = kind, .instance = instance};
	powercap_rapl_zone which = kind_zones[kind];

	if (powercap_rapl_is_zone_supported(package, which) != 1)
		return false;
	if (powercap_rapl_get_energy_uj(package, which, &zone.energy_uj) ||
	    powercap_rapl_get_max_energy_range_uj(package, which, &zone.range_uj) || zone.range_uj == 0)
		return false;
	if (powercap_rapl_get_name(package, which, zone.name, sizeof(zone.name)) < 0)
		snprintf(zone.name, sizeof(zone.name), "%s", kind_names[kind]);
	zone.name[strcspn(zone.name, "\n")] = '\0';
	zone.power_max_uw = power_max(package, which);
	*ret_zone = zone;
	return true;
}

size_t rapl_read(const struct rapl *rapl, struct rapl_zone zones[RAPL_ZONES_MAX])
{
	size_t count = 0;

	for (uint32_t i = 0; i < rapl->instance_count; i++)
		for (int kind = 0; kind < RAPL_KIND_COUNT && count < RAPL_ZONES_MAX; kind++)
			if (zone_read(rapl, i, (enum rapl_kind)kind, &zones[count]))
				count++;
	return count;
}
