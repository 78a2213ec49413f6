/*
 * RSMI: the energy counters of AMD's graphics processors, from ROCm's system management library.
 *
 * librocm_smi64.so is opened by name at the first use; nothing links it. The loader searches for it as for any library,
 * and in /opt/rocm/lib: root's processes read the counters without a user's environment (meters.h). A call hangs as
 * long as the driver does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"

#define RSMI_DEVICES_MAX 64
#define RSMI_NAME_MAX    64

struct rsmi_counter {
	uint32_t number;          /* index of the device among AMD's, by the number of its render node */
	uint32_t index;           /* place in the library's list, which is in the order of the bus */
	bool is_shared;           /* the counter covers two devices, which are dies of one module */
	char name[RSMI_NAME_MAX]; /* printable ASCII without quotes and backslashes */
	uint64_t energy_uj;       /* energy since the driver was loaded */
};

/*
 * Reads the counters of all devices that have one. *ret_missing is the number of devices without one. Returns 0,
 * -ENOENT (no library), or -ENODEV (no driver, or no device).
 */
int rsmi_read(struct rsmi_counter ret_counters[RSMI_DEVICES_MAX], size_t *ret_count, size_t *ret_missing,
              struct error *error);
