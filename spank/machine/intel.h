/*
 * Intel's GPUs: the energy counters that the drivers i915 and xe show in /sys/class/drm/renderD<N>/device/hwmon, in
 * microjoules. The driver extends a counter of 32 bits, which wraps after 262 kJ, only when somebody reads it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define INTEL_DEVICES_MAX 64
#define INTEL_NAME_MAX    24

/* Longest time between two readings in which a device of at most INTEL_MOST_W cannot wrap unseen. */
#define INTEL_MOST_W 1050
#define INTEL_WRAP_S (262144 / INTEL_MOST_W)

/* The counter of one device. */
struct intel_counter {
	uint32_t number;           /* position among the render nodes of Intel's devices, as Slurm numbers them */
	char name[INTEL_NAME_MAX]; /* "Intel GPU 0bd5", by its PCI number */
	uint64_t energy_uj;
};

/*
 * Reads the counters of all devices, each of the whole card if it has one for the card, else of its package. Sets
 * *ret_missing to the number of devices without one. Returns the number of counters.
 */
size_t intel_read(struct intel_counter ret_counters[INTEL_DEVICES_MAX], size_t *ret_missing);
