/*
 * RSMI: the energy counters of AMD's graphics processors, as the library of ROCm's system management tells them.
 *
 * librocm_smi64.so is opened by its name when it is first needed, so nothing is linked to it. The loader looks where it
 * looks for any library, and in /opt/rocm/lib: root's processes read the counters without a user's environment
 * (meters.h). A call into the library may hang for as long as the driver does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"

#define RSMI_DEVICES_MAX 64
#define RSMI_NAME_MAX    64

struct rsmi_counter {
	uint32_t number;          /* position of the device among AMD's, by the number of its render node */
	bool is_shared;           /* two devices are dies of one module, and the first one's counter is of both */
	char name[RSMI_NAME_MAX]; /* printable ASCII without quotes and backslashes */
	uint64_t energy_uj;       /* since the driver was loaded */
};

/*
 * Reads the counters of all devices that have one. *ret_missing: how many have none. Returns 0, -ENOENT (no library),
 * or -ENODEV (no driver, or no device).
 */
int rsmi_read(struct rsmi_counter ret_counters[RSMI_DEVICES_MAX], size_t *ret_count, size_t *ret_missing,
              struct error *error);
