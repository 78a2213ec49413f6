#include "spank/machine/hwmon.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/proc.h"
#include "spank/base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MONITORS    "/sys/class/hwmon"
#define SENSORS_MAX 1024 /* sensors of a monitor; amd_energy has one per core and socket */

/* A label that a driver gives a counter: prefix, number if has_number, suffix; and what the counter measures. */
static const struct label {
	const char *driver, *prefix, *suffix;
	bool has_number;
	enum hwmon_part part;
} labels[] = {
        {"amd_energy", "Esocket", "", true, HWMON_CPU},
        {"ibmpowernv", "System", "", false, HWMON_NODE},
        {"ibmpowernv", "Chip ", "", true, HWMON_CPU},
        {"ibmpowernv", "Chip ", " Memory", true, HWMON_MEMORY},
};

#define LABEL_COUNT (sizeof(labels) / sizeof(labels[0]))

static bool driver_is_known(const char *driver)
{
	for (size_t i = 0; i < LABEL_COUNT; i++)
		if (strcmp(driver, labels[i].driver) == 0)
			return true;
	return false;
}

/* Opens the next monitor of a known driver. Returns its directory, or -1. */
static int monitor_next(DIR *monitors, char ret_driver[32])
{
	const struct dirent *entry;

	while (monitors && (entry = readdir(monitors))) {
		char path[PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), MONITORS "/%s/name", entry->d_name);
		if (proc_line_read(AT_FDCWD, path, ret_driver, 32) <= 0 || !driver_is_known(ret_driver))
			continue;
		*strrchr(path, '/') = '\0';
		return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return -1;
}

/* Returns true if the text is a label of that kind. The number stands in the middle: "Esocket0", "Chip 8 Memory". */
static bool label_fits(const struct label *label, const char *text, uint64_t *ret_number)
{
	size_t length = strlen(text), prefix = strlen(label->prefix), suffix = strlen(label->suffix);
	char number[16];

	if (length < prefix + suffix || strncmp(text, label->prefix, prefix) != 0 ||
	    strcmp(text + length - suffix, label->suffix) != 0)
		return false;
	length -= prefix + suffix;
	if (!label->has_number)
		return length == 0;
	if (length == 0 || length >= sizeof(number))
		return false;
	snprintf(number, sizeof(number), "%.*s", (int)length, text + prefix);
	return text_number(number, 4095, ret_number);
}

static const struct label *label_find(const char *driver, const char *text, uint64_t *ret_number)
{
	for (size_t i = 0; i < LABEL_COUNT; i++)
		if (strcmp(driver, labels[i].driver) == 0 && label_fits(&labels[i], text, ret_number))
			return &labels[i];
	return NULL;
}

static void monitor_read(int monitor, const char *driver, struct hwmon_counter counters[], size_t *count)
{
	for (int i = 1; i <= SENSORS_MAX && *count < HWMON_COUNTERS_MAX; i++) {
		char name[32], text[64];
		const struct label *label;
		uint64_t number = 0, energy_uj;

		snprintf(name, sizeof(name), "energy%d_label", i);
		if (proc_line_read(monitor, name, text, sizeof(text)) <= 0)
			return;
		label = label_find(driver, text, &number);
		snprintf(name, sizeof(name), "energy%d_input", i);
		if (label && proc_number_read(monitor, name, &energy_uj) && energy_uj <= INT64_MAX)
			counters[(*count)++] = (struct hwmon_counter){label->part, (uint32_t)number, energy_uj};
	}
}

bool hwmon_there(void)
{
	cleanup_close int directory = open(MONITORS, O_RDONLY | O_DIRECTORY | O_CLOEXEC), monitor = -1;
	cleanup_closedir DIR *monitors = directory < 0 ? NULL : files_entries(directory);
	char driver[32];

	monitor = monitor_next(monitors, driver);
	return monitor >= 0;
}

size_t hwmon_read(struct hwmon_counter ret_counters[HWMON_COUNTERS_MAX])
{
	cleanup_close int directory = open(MONITORS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *monitors = directory < 0 ? NULL : files_entries(directory);
	char driver[32];
	size_t count = 0;
	int monitor;

	while ((monitor = monitor_next(monitors, driver)) >= 0) {
		monitor_read(monitor, driver, ret_counters, &count);
		close(monitor);
	}
	return count;
}
