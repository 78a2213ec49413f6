/*
 * NVML: the energy counters of NVIDIA's graphics processors, as the driver's own library tells them.
 *
 * libnvidia-ml.so.1 is opened by its name when it is first needed, so nothing is linked to it. The loader looks where
 * it looks for any library: root's processes read the counters without a user's environment (meters.h). A call into
 * the driver may hang for as long as the driver does. Nothing here needs another module of ours.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"

#define NVML_DEVICES_MAX 64
#define NVML_TEXT_MAX    64

/* One device, as it was when the library was opened. */
struct nvml_device {
	uint32_t minor;           /* N of /dev/nvidiaN: the number by which Slurm knows the device */
	bool is_split;            /* MIG divides the device, so its counter is of all who have a part of it */
	char uuid[NVML_TEXT_MAX]; /* letters, digits, "-"; "" where the driver does not tell */
	char name[NVML_TEXT_MAX]; /* printable ASCII without quotes and backslashes */
};

/* How the driver measures the power that it tells. */
enum nvml_power {
	NVML_POWER_AVERAGE, /* over the last second, on Ampere and later */
	NVML_POWER_INSTANT  /* of now, where the driver tells it apart */
};

struct nvml;

/*
 * Opens the library and asks for the devices; one that the driver cannot reach is left out. The caller frees *ret_nvml
 * with nvml_close. Returns 0, -ENOENT (no library), -ENODEV (no driver, or no device) or -ENOMEM.
 */
int nvml_open(struct nvml **ret_nvml, struct error *error);
void nvml_close(struct nvml *nvml);

size_t nvml_count(const struct nvml *nvml);
const struct nvml_device *nvml_device(const struct nvml *nvml, size_t index);

/* Version of the driver, "" where it does not tell. */
const char *nvml_driver(const struct nvml *nvml);

/* Reads what the device has used since its driver was loaded. Returns 0 or -EIO: Volta and later have a counter. */
int nvml_energy_read(const struct nvml *nvml, size_t index, uint64_t *ret_energy_mj);

/* Reads the power. Returns 0 or -EIO. */
int nvml_power_read(const struct nvml *nvml, size_t index, enum nvml_power kind, uint64_t *ret_power_mw);
