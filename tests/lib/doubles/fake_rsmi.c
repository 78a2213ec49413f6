/*
 * A double of librocm_smi64.so. The file "rsmi" beside the library lists the devices, one a line:
 *
 *     MINOR COUNTER RESOLUTION_UJ NAME
 *
 * COUNTER "-": the device has none. A line "hang" makes rsmi_init sleep for ever, "refuse" makes it fail.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT        __attribute__((visibility("default")))
#define DEVICES_MAX   128
#define NOT_SUPPORTED 2

struct device {
	uint32_t minor;
	char counter[32];
	float resolution_uj;
	char name[300];
};

static char verb[32];

static uint32_t devices_read(struct device devices[DEVICES_MAX])
{
	char path[PATH_MAX], line[512];
	uint32_t count = 0;
	Dl_info where;
	FILE *file;

	verb[0] = '\0';
	if (!dladdr((void *)devices_read, &where))
		return 0;
	snprintf(path, sizeof(path), "%.*srsmi", (int)(strrchr(where.dli_fname, '/') + 1 - where.dli_fname),
	         where.dli_fname);
	file = fopen(path, "re");
	while (file && count < DEVICES_MAX && fgets(line, sizeof(line), file)) {
		struct device *device = &devices[count];

		if (sscanf(line, "%u %31s %f %299[^\n]", &device->minor, device->counter, &device->resolution_uj,
		           device->name) == 4)
			count++;
		else
			sscanf(line, "%31s", verb);
	}
	if (file)
		fclose(file);
	return count;
}

static int device_read(uint32_t index, struct device *ret_device)
{
	struct device devices[DEVICES_MAX];

	if (index >= devices_read(devices))
		return NOT_SUPPORTED;
	*ret_device = devices[index];
	return 0;
}

EXPORT int rsmi_init(uint64_t flags);
EXPORT int rsmi_shut_down(void);
EXPORT int rsmi_num_monitor_devices(uint32_t *count);
EXPORT int rsmi_dev_energy_count_get(uint32_t index, uint64_t *counter, float *resolution_uj, uint64_t *mark_ns);
EXPORT int rsmi_dev_name_get(uint32_t index, char *text, size_t size);
EXPORT int rsmi_dev_drm_render_minor_get(uint32_t index, uint32_t *minor);

int rsmi_init(uint64_t flags)
{
	struct device devices[DEVICES_MAX];

	devices_read(devices);
	while (strcmp(verb, "hang") == 0)
		pause();
	return flags || strcmp(verb, "refuse") == 0 ? NOT_SUPPORTED : 0;
}

int rsmi_shut_down(void)
{
	return 0;
}

int rsmi_num_monitor_devices(uint32_t *count)
{
	struct device devices[DEVICES_MAX];

	*count = devices_read(devices);
	return 0;
}

int rsmi_dev_energy_count_get(uint32_t index, uint64_t *counter, float *resolution_uj, uint64_t *mark_ns)
{
	struct device device;
	int result = device_read(index, &device);

	if (result || strcmp(device.counter, "-") == 0)
		return NOT_SUPPORTED;
	*counter = strtoull(device.counter, NULL, 10);
	*resolution_uj = device.resolution_uj;
	*mark_ns = 1;
	return 0;
}

int rsmi_dev_name_get(uint32_t index, char *text, size_t size)
{
	struct device device;
	int result = device_read(index, &device);

	if (!result)
		snprintf(text, size, "%s", device.name);
	return result;
}

int rsmi_dev_drm_render_minor_get(uint32_t index, uint32_t *minor)
{
	struct device device;
	int result = device_read(index, &device);

	*minor = result ? 0 : device.minor;
	return result;
}
