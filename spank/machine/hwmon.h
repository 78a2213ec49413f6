/*
 * Hwmon: energy counters of amd_energy and ibmpowernv among the kernel's hardware monitors, /sys/class/hwmon, in
 * microjoules. The drivers extend the hardware's counters to 64 bits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HWMON_COUNTERS_MAX 32

enum hwmon_part { HWMON_NODE, HWMON_CPU, HWMON_MEMORY };

/* One counter of a monitor. */
struct hwmon_counter {
	enum hwmon_part part;
	uint32_t number; /* number of the socket or chip, else 0 */
	uint64_t energy_uj;
};

/* Returns true if the node has a monitor of these drivers. */
bool hwmon_there(void);

/* Reads the counters of sockets, chips, their memory, and the system. Returns the number of counters. */
size_t hwmon_read(struct hwmon_counter ret_counters[HWMON_COUNTERS_MAX]);
