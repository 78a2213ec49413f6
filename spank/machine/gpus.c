#include "spank/machine/gpus.h"

#include "spank/base/cleanup.h"
#include "spank/base/files.h"
#include "spank/base/proc.h"
#include "spank/base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVIDIA_GPUS "/proc/driver/nvidia/gpus"
#define OWN_ADDRESS "PCI_SLOT_NAME=0000:00:02.0\n" /* PCI address of the graphics in every Intel processor */
#define UEVENT_MAX  4096

/* PCI numbers of the makers of GPUs, by enum vendor. */
static const char *const vendors[] = {"0x10de", "0x1002", "0x8086"};

enum vendor { NVIDIA, AMD, INTEL, VENDORS };

static uint32_t entries_count(const char *path)
{
	cleanup_close int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *entries = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;
	uint32_t count = 0;

	while (entries && (entry = readdir(entries)))
		count += entry->d_name[0] != '.';
	return count;
}

static bool is_own_graphics(const char *name)
{
	char path[PATH_MAX];
	cleanup_free char *text = NULL;
	size_t length = 0;

	snprintf(path, sizeof(path), GPUS_DRM "/%s/device/uevent", name);
	return files_read(AT_FDCWD, path, UEVENT_MAX, &text, &length) == 0 && strstr(text, OWN_ADDRESS);
}

/* A device for computing has a render node; a management controller has none. */
static bool is_gpu(const char *name, enum vendor *ret_vendor)
{
	char path[PATH_MAX], vendor[16];

	if (strncmp(name, "renderD", 7) != 0)
		return false;
	snprintf(path, sizeof(path), GPUS_DRM "/%s/device/vendor", name);
	if (proc_line_read(AT_FDCWD, path, vendor, sizeof(vendor)) <= 0)
		return false;
	for (int i = 0; i < VENDORS; i++) {
		if (strcmp(vendor, vendors[i]) != 0)
			continue;
		*ret_vendor = (enum vendor)i;
		return !is_own_graphics(name);
	}
	return false;
}

static void vendors_count(uint32_t ret_counts[VENDORS])
{
	cleanup_close int directory = open(GPUS_DRM, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *entries = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;
	enum vendor vendor;

	memset(ret_counts, 0, VENDORS * sizeof(ret_counts[0]));
	while (entries && (entry = readdir(entries)))
		if (is_gpu(entry->d_name, &vendor))
			ret_counts[vendor]++;
}

/* NVIDIA's driver lists its devices there, whether its module for screens is loaded or not. */
uint32_t gpus_of_nvidia(void)
{
	return entries_count(NVIDIA_GPUS);
}

uint32_t gpus_of_amd(void)
{
	uint32_t counts[VENDORS];

	vendors_count(counts);
	return counts[AMD];
}

static int minors_compare(const void *first, const void *second)
{
	uint32_t a = *(const uint32_t *)first, b = *(const uint32_t *)second;

	return (a > b) - (a < b);
}

/* Returns the number N of /dev/dri/renderDN; false for any other name. */
static bool minor_of(const char *name, uint64_t *ret_minor)
{
	return text_number(name + strlen("renderD"), GPUS_MINOR_MAX, ret_minor);
}

uint32_t gpus_of_intel(uint32_t ret_minors[], uint32_t most)
{
	cleanup_close int directory = open(GPUS_DRM, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *entries = directory < 0 ? NULL : files_entries(directory);
	const struct dirent *entry;
	enum vendor vendor;
	uint32_t count = 0;
	uint64_t minor;

	while (entries && count < most && (entry = readdir(entries)))
		if (is_gpu(entry->d_name, &vendor) && vendor == INTEL && minor_of(entry->d_name, &minor))
			ret_minors[count++] = (uint32_t)minor;
	qsort(ret_minors, count, sizeof(ret_minors[0]), minors_compare);
	return count;
}

uint32_t gpus_count(void)
{
	uint32_t counts[VENDORS], shown = gpus_of_nvidia();

	vendors_count(counts);
	return counts[AMD] + counts[INTEL] + (counts[NVIDIA] > shown ? counts[NVIDIA] : shown);
}
