/*
 * NVML: the energy counters of NVIDIA's graphics processors, from the driver's own library.
 *
 * libnvidia-ml.so.1 is opened by name at the first use; nothing links it. The loader searches for it as for any
 * library: root's processes read the counters without a user's environment (meters.h). A call hangs as long as the
 * driver does. This module needs no other one of ours.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"

#define NVML_DEVICES_MAX 64
#define NVML_TEXT_MAX    64

/* A device, as it was when the library was opened. */
struct nvml_device {
	uint32_t minor;           /* N of /dev/nvidiaN */
	uint32_t index;           /* place in the driver's list, which is in the order of the bus */
	bool is_split;            /* MIG divides the device; its counter covers all users of its parts */
	char uuid[NVML_TEXT_MAX]; /* letters, digits, "-"; "": unknown */
	char name[NVML_TEXT_MAX]; /* printable ASCII without quotes and backslashes */
};

/* How the driver measures power. */
enum nvml_power {
	NVML_POWER_AVERAGE, /* mean of the last second, on Ampere and later */
	NVML_POWER_INSTANT  /* power at this moment, if the driver has it */
};

struct nvml;

/*
 * Opens the library and finds the devices that the driver can reach. The caller frees *ret_nvml with nvml_close.
 * Returns 0, -ENOENT (no library), -ENODEV (no driver, or no device) or -ENOMEM.
 */
int nvml_open(struct nvml **ret_nvml, struct error *error);
void nvml_close(struct nvml *nvml);

/* Return the number of devices, and one of them. */
size_t nvml_count(const struct nvml *nvml);
const struct nvml_device *nvml_device(const struct nvml *nvml, size_t index);

/* Returns the driver's version, "" if unknown. */
const char *nvml_driver(const struct nvml *nvml);

/*
 * Reads the energy that the device has used since its driver was loaded. Returns 0 or -EIO; Volta and later have a
 * counter.
 */
int nvml_energy_read(const struct nvml *nvml, size_t index, uint64_t *ret_energy_mj);

/* Reads the device's power. Returns 0 or -EIO. */
int nvml_power_read(const struct nvml *nvml, size_t index, enum nvml_power kind, uint64_t *ret_power_mw);
