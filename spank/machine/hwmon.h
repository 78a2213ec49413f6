/*
 * Energy counters among the kernel's hardware monitors, /sys/class/hwmon: those of amd_energy and ibmpowernv, in
 * microjoules. The drivers make 64 bits of what the hardware counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HWMON_COUNTERS_MAX 32

enum hwmon_part { HWMON_NODE, HWMON_CPU, HWMON_MEMORY };

struct hwmon_counter {
	enum hwmon_part part;
	uint32_t number; /* of the socket or the chip, else 0 */
	uint64_t energy_uj;
};

/* Returns true if one of the drivers shows monitors. */
bool hwmon_there(void);

/* Reads the counters of sockets, chips, their memory, and the system. Returns how many were read. */
size_t hwmon_read(struct hwmon_counter ret_counters[HWMON_COUNTERS_MAX]);
