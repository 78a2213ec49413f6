/*
 * A double of libnvidia-ml.so.1. The file "nvml" beside the library lists the devices, one a line:
 *
 *     MINOR ENERGY_MJ POWER_MW SPLIT NAME
 *
 * ENERGY_MJ "-": the device has no counter. "run POWER": the counter runs at POWER_MW of the monotonic clock. A line
 * "hang" makes nvmlInit_v2 sleep for ever, "crash" makes it abort, "refuse" makes it fail. Each call reads the file
 * anew, so that a test can set the counters while a program runs.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT      __attribute__((visibility("default")))
#define DEVICES_MAX 128
#define FAILED      999 /* NVML_ERROR_UNKNOWN */
#define NOT_FOUND   6
#define POWER_FIELD 186

struct device {
	unsigned minor, power_mw, split;
	long long energy_mj; /* -1: no counter, -2: a running counter */
	char name[300];
};

struct field_value {
	unsigned field, scope;
	long long time_us, took_us;
	unsigned type;
	int result;
	union {
		unsigned number;
		unsigned long long widest;
	} value;
};

static char verb[32];

static int line_read(const char *line, struct device *ret_device)
{
	char energy[32];

	if (sscanf(line, "%u %31s %u %u %299[^\n]", &ret_device->minor, energy, &ret_device->power_mw,
	           &ret_device->split, ret_device->name) != 5) {
		sscanf(line, "%31s", verb);
		return 0;
	}
	ret_device->energy_mj = strcmp(energy, "run") == 0 ? -2 : strcmp(energy, "-") == 0 ? -1 : atoll(energy);
	return 1;
}

static unsigned devices_read(struct device devices[DEVICES_MAX])
{
	char path[PATH_MAX], line[512];
	unsigned count = 0;
	Dl_info where;
	FILE *file;

	verb[0] = '\0';
	if (!dladdr((void *)devices_read, &where))
		return 0;
	snprintf(path, sizeof(path), "%.*snvml", (int)(strrchr(where.dli_fname, '/') + 1 - where.dli_fname),
	         where.dli_fname);
	file = fopen(path, "re");
	while (file && count < DEVICES_MAX && fgets(line, sizeof(line), file))
		count += (unsigned)line_read(line, &devices[count]);
	if (file)
		fclose(file);
	return count;
}

/* A handle is the index plus one, since NULL is no handle. */
static int device_read(void *handle, struct device *ret_device)
{
	struct device devices[DEVICES_MAX];
	unsigned index = (unsigned)(size_t)handle - 1;

	if (index >= devices_read(devices))
		return FAILED;
	*ret_device = devices[index];
	return 0;
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle);
EXPORT int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor);
EXPORT int nvmlDeviceGetUUID(void *handle, char *text, unsigned size);
EXPORT int nvmlDeviceGetName(void *handle, char *text, unsigned size);
EXPORT int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *later);
EXPORT int nvmlDeviceGetPowerUsage(void *handle, unsigned *power_mw);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *energy_mj);
EXPORT int nvmlDeviceGetFieldValues(void *handle, int count, struct field_value *values);

int nvmlInit_v2(void)
{
	struct device devices[DEVICES_MAX];

	devices_read(devices);
	while (strcmp(verb, "hang") == 0)
		pause();
	if (strcmp(verb, "crash") == 0)
		abort();
	return strcmp(verb, "refuse") == 0 ? FAILED : 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
	snprintf(text, size, "simulated");
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	struct device devices[DEVICES_MAX];

	*count = devices_read(devices);
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
	struct device device;

	*handle = (void *)((size_t)index + 1);
	return device_read(*handle, &device);
}

int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor)
{
	struct device device;
	int result = device_read(handle, &device);

	*minor = result ? 0 : device.minor;
	return result;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned size)
{
	struct device device;
	int result = device_read(handle, &device);

	if (!result)
		snprintf(text, size, "GPU-00000000-0000-0000-0000-%012u", device.minor);
	return result;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned size)
{
	struct device device;
	int result = device_read(handle, &device);

	if (!result)
		snprintf(text, size, "%s", device.name);
	return result;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *later)
{
	struct device device;
	int result = device_read(handle, &device);

	*now = *later = result ? 0 : device.split;
	return result;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *power_mw)
{
	struct device device;
	int result = device_read(handle, &device);

	*power_mw = result ? 0 : device.power_mw;
	return result;
}

int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *energy_mj)
{
	struct device device;
	struct timespec now;
	int result = device_read(handle, &device);

	if (result || device.energy_mj == -1)
		return result ? result : NOT_FOUND;
	clock_gettime(CLOCK_MONOTONIC, &now);
	*energy_mj = (unsigned long long)device.energy_mj;
	if (device.energy_mj == -2)
		*energy_mj = (unsigned long long)((double)device.power_mw *
		                                  ((double)now.tv_sec + (double)now.tv_nsec * 1e-9));
	return 0;
}

int nvmlDeviceGetFieldValues(void *handle, int count, struct field_value *values)
{
	struct device device;
	int result = device_read(handle, &device);

	for (int i = 0; !result && i < count; i++) {
		values[i].result = values[i].field == POWER_FIELD ? 0 : FAILED;
		values[i].value.number = device.power_mw;
	}
	return result;
}
