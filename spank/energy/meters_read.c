#include "spank/energy/meters_read.h"

#include "spank/base/files.h"
#include "spank/machine/board.h"
#include "spank/machine/gpus.h"
#include "spank/machine/hwmon.h"
#include "spank/machine/intel.h"
#include "spank/machine/nvml.h"
#include "spank/machine/rsmi.h"

#include <string.h>

#define UJ_PER_MJ  1000
#define NO_COUNTER "a GPU has no energy counter"

_Static_assert(METER_NAME_MAX >= NVML_TEXT_MAX, "a device's name fits");
_Static_assert(METER_NAME_MAX >= RSMI_NAME_MAX, "a device's name fits");
_Static_assert(METER_NAME_MAX >= INTEL_NAME_MAX, "a device's name fits");

static void why_set(struct meters *meters, const char *why)
{
	if (!meters->why[0])
		snprintf(meters->why, sizeof(meters->why), "%s", why);
}

static void meter_add(struct meters *meters, const struct meter *meter)
{
	if (meters->count < METERS_MAX)
		meters->meter[meters->count++] = *meter;
}

static void nvml_add(const struct nvml *nvml, size_t index, struct meters *meters)
{
	const struct nvml_device *device = nvml_device(nvml, index);
	struct meter meter = {.source = METER_NVML,
	                      .scope = METER_GPU,
	                      .number = device->minor,
	                      .place = device->index,
	                      .is_split = device->is_split};
	uint64_t energy_mj;

	if (device->minor > METER_NUMBER_MAX || nvml_energy_read(nvml, index, &energy_mj)) {
		why_set(meters, NO_COUNTER);
		return;
	}
	meter.mark = clock_ns(CLOCK_BOOTTIME) / 1000;
	meter.energy_uj = energy_mj < INT64_MAX / UJ_PER_MJ ? energy_mj * UJ_PER_MJ : INT64_MAX;
	memcpy(meter.name, device->name, sizeof(device->name));
	meter_add(meters, &meter);
}

static void nvml_add_all(struct meters *meters)
{
	struct error error = {""};
	struct nvml *nvml = NULL;

	if (nvml_open(&nvml, &error)) {
		why_set(meters, error.text);
		return;
	}
	for (size_t i = 0; i < nvml_count(nvml); i++)
		nvml_add(nvml, i, meters);
	nvml_close(nvml);
}

static void rsmi_add_all(struct meters *meters)
{
	struct rsmi_counter counters[RSMI_DEVICES_MAX];
	struct error error = {""};
	size_t count, missing;

	if (rsmi_read(counters, &count, &missing, &error))
		why_set(meters, error.text);
	else if (missing > 0)
		why_set(meters, NO_COUNTER);
	for (size_t i = 0; i < count; i++) {
		struct meter meter = {.source = METER_RSMI,
		                      .scope = METER_GPU,
		                      .number = counters[i].number,
		                      .place = counters[i].index,
		                      .is_split = counters[i].is_shared,
		                      .energy_uj = counters[i].energy_uj,
		                      .mark = clock_ns(CLOCK_BOOTTIME) / 1000};

		memcpy(meter.name, counters[i].name, sizeof(counters[i].name));
		meter_add(meters, &meter);
	}
}

/* Leaves marks to the caller, who knows when the counters were read before (meters_ask.h). */
static void intel_add_all(struct meters *meters)
{
	struct intel_counter counters[INTEL_DEVICES_MAX];
	size_t missing, count = intel_read(counters, &missing);

	if (missing > 0)
		why_set(meters, NO_COUNTER);
	for (size_t i = 0; i < count; i++) {
		struct meter meter = {.source = METER_INTEL,
		                      .scope = METER_GPU,
		                      .number = counters[i].number,
		                      .place = counters[i].number,
		                      .energy_uj = counters[i].energy_uj};

		memcpy(meter.name, counters[i].name, sizeof(counters[i].name));
		meter_add(meters, &meter);
	}
}

static void board_add(struct meters *meters)
{
	static const enum meter_scope scopes[] = {[BOARD_NODE] = METER_NODE,
	                                          [BOARD_CPU] = METER_CPU,
	                                          [BOARD_MEMORY] = METER_MEMORY,
	                                          [BOARD_ACCELERATOR] = METER_GPU};
	struct board_counter counters[BOARD_COUNTERS_MAX];
	struct error error = {""};
	size_t count = board_read(counters, &error);

	if (error.text[0])
		why_set(meters, error.text);
	for (size_t i = 0; i < count; i++)
		meter_add(meters, &(struct meter){.source = METER_CRAY,
		                                  .scope = scopes[counters[i].part],
		                                  .number = counters[i].number,
		                                  .energy_uj = counters[i].energy_uj,
		                                  .mark = counters[i].mark});
}

static void hwmon_add(struct meters *meters)
{
	static const enum meter_scope scopes[] = {
	        [HWMON_NODE] = METER_NODE, [HWMON_CPU] = METER_CPU, [HWMON_MEMORY] = METER_MEMORY};
	struct hwmon_counter counters[HWMON_COUNTERS_MAX];
	size_t count = hwmon_read(counters);

	if (count == 0)
		why_set(meters, "the monitors' counters cannot be read");
	for (size_t i = 0; i < count; i++)
		meter_add(meters, &(struct meter){.source = METER_HWMON,
		                                  .scope = scopes[counters[i].part],
		                                  .number = counters[i].number,
		                                  .energy_uj = counters[i].energy_uj});
}

void meters_read(const char *sources, struct meters *ret_meters)
{
	memset(ret_meters, 0, sizeof(*ret_meters));
	if (meter_source_is_wanted(sources, METER_CRAY) && board_there())
		board_add(ret_meters);
	if (meter_source_is_wanted(sources, METER_HWMON) && hwmon_there())
		hwmon_add(ret_meters);
	if (meter_source_is_wanted(sources, METER_NVML) && gpus_of_nvidia() > 0)
		nvml_add_all(ret_meters);
	if (meter_source_is_wanted(sources, METER_RSMI) && gpus_of_amd() > 0)
		rsmi_add_all(ret_meters);
	if (meter_source_is_wanted(sources, METER_INTEL))
		intel_add_all(ret_meters);
}
