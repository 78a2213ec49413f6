#include "spank/machine/intel.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/proc.h"
#include "spank/machine/gpus.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Returns true for the monitor of a whole device. i915 has others for its tiles, "i915_gt0". */
static bool is_of_device(int monitors, const char *name)
{
	char path[PATH_MAX], driver[16];

	snprintf(path, sizeof(path), "%s/name", name);
	return name[0] != '.' && proc_line_read(monitors, path, driver, sizeof(driver)) > 0 &&
	       (strcmp(driver, "i915") == 0 || strcmp(driver, "xe") == 0);
}

/* xe numbers the card's counter 1 and the package's 2, and not every device has the card's; i915 has number 1 alone. */
static bool energy_read(int monitors, const char *name, uint64_t *ret_energy_uj)
{
	for (int i = 1; i <= 2; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/energy%d_input", name, i);
		if (proc_number_read(monitors, path, ret_energy_uj))
			return *ret_energy_uj <= INT64_MAX;
	}
	return false;
}

static bool device_read(uint32_t minor, uint64_t *ret_energy_uj)
{
	char path[PATH_MAX];
	cleanup_close int monitors = -1;
	cleanup_closedir DIR *entries = NULL;
	const struct dirent *entry;

	snprintf(path, sizeof(path), GPUS_DRM "/renderD%u/device/hwmon", minor);
	monitors = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	entries = monitors < 0 ? NULL : files_entries(monitors);
	while (entries && (entry = readdir(entries)))
		if (is_of_device(monitors, entry->d_name))
			return energy_read(monitors, entry->d_name, ret_energy_uj);
	return false;
}

static void name_read(uint32_t minor, char name[INTEL_NAME_MAX])
{
	char path[PATH_MAX], number[8];

	snprintf(path, sizeof(path), GPUS_DRM "/renderD%u/device/device", minor);
	strcpy(name, "Intel GPU");
	if (proc_line_read(AT_FDCWD, path, number, sizeof(number)) > 0 && strncmp(number, "0x", 2) == 0 &&
	    strspn(number + 2, "0123456789abcdef") == 4)
		snprintf(name, INTEL_NAME_MAX, "Intel GPU %.4s", number + 2);
}

size_t intel_read(struct intel_counter ret_counters[INTEL_DEVICES_MAX], size_t *ret_missing)
{
	uint32_t minors[INTEL_DEVICES_MAX], devices = gpus_of_intel(minors, INTEL_DEVICES_MAX);
	size_t count = 0;

	*ret_missing = 0;
	for (uint32_t i = 0; i < devices; i++) {
		struct intel_counter *counter = &ret_counters[count];

		counter->number = i;
		if (device_read(minors[i], &counter->energy_uj)) {
			name_read(minors[i], counter->name);
			count++;
		} else {
			++*ret_missing;
		}
	}
	return count;
}
