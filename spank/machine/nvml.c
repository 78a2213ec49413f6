#include "spank/machine/nvml.h"

#include "spank/base/cleanup.h"
#include "spank/base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define LIBRARY     "libnvidia-ml.so.1"
#define ANSWER_MAX  256 /* bytes; NVML writes no longer text */
#define SUCCESS     0   /* NVML_SUCCESS */
#define SPLIT       1   /* NVML_DEVICE_MIG_ENABLE */
#define POWER_FIELD 186 /* NVML_FI_DEV_POWER_INSTANT */

/* nvmlFieldValue_t of nvml.h, whose layout is part of the library's ABI. */
struct field_value {
	unsigned field;
	unsigned scope;
	long long time_us;
	long long took_us;
	unsigned type;
	int result;
	union {
		unsigned number;
		unsigned long long widest;
	} value;
};

_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t has 40 bytes");

/* The library's functions: member here, name there, arguments. All return nvmlReturn_t. */
#define FUNCTIONS(row)                                                                                                 \
	row(init, "nvmlInit_v2", (void)) row(end, "nvmlShutdown", (void))                                              \
	        row(get_count, "nvmlDeviceGetCount_v2", (unsigned *)) row(get_device, "nvmlDeviceGetHandleByIndex_v2", \
	                                                                  (unsigned, void **))                         \
	                row(get_minor, "nvmlDeviceGetMinorNumber", (void *, unsigned *))                               \
	                        row(get_energy, "nvmlDeviceGetTotalEnergyConsumption", (void *, unsigned long long *))

/* Functions that the library may lack; their member is NULL then. */
#define FUNCTIONS_MAYBE(row)                                                                             \
	row(get_uuid, "nvmlDeviceGetUUID", (void *, char *, unsigned))                                   \
	        row(get_name, "nvmlDeviceGetName", (void *, char *, unsigned))                           \
	                row(get_driver, "nvmlSystemGetDriverVersion", (char *, unsigned))                \
	                        row(get_split, "nvmlDeviceGetMigMode", (void *, unsigned *, unsigned *)) \
	                                row(get_power, "nvmlDeviceGetPowerUsage", (void *, unsigned *))  \
	                                        row(get_fields, "nvmlDeviceGetFieldValues",              \
	                                            (void *, int, struct field_value *))

struct nvml {
	void *library;
	bool is_begun; /* nvmlInit_v2 has succeeded */
#define MEMBER(member, name, arguments) int(*member) arguments;
	FUNCTIONS(MEMBER)
	FUNCTIONS_MAYBE(MEMBER)
#undef MEMBER
	char driver[NVML_TEXT_MAX];
	size_t count;
	void *handle[NVML_DEVICES_MAX];
	struct nvml_device device[NVML_DEVICES_MAX];
};

static bool functions_find(struct nvml *nvml)
{
#define FIND(member, name, arguments) *(void **)&nvml->member = dlsym(nvml->library, name);
	FUNCTIONS(FIND)
	FUNCTIONS_MAYBE(FIND)
#undef FIND
#define AND(member, name, arguments) &&nvml->member
	return true FUNCTIONS(AND);
#undef AND
}

static void texts_read(const struct nvml *nvml, void *handle, struct nvml_device *ret_device)
{
	char name[ANSWER_MAX] = "", uuid[ANSWER_MAX] = "";

	if (nvml->get_name && nvml->get_name(handle, name, sizeof(name)) == SUCCESS)
		text_plain(name, sizeof(name) - 1, ret_device->name, NVML_TEXT_MAX);
	if (nvml->get_uuid && nvml->get_uuid(handle, uuid, sizeof(uuid)) == SUCCESS)
		text_plain(uuid, sizeof(uuid) - 1, ret_device->uuid, NVML_TEXT_MAX);
}

static void device_add(struct nvml *nvml, unsigned index)
{
	struct nvml_device device = {.index = index};
	unsigned split = 0, later = 0;
	void *handle;

	if (nvml->get_device(index, &handle) != SUCCESS || nvml->get_minor(handle, &device.minor) != SUCCESS)
		return;
	device.is_split = nvml->get_split && nvml->get_split(handle, &split, &later) == SUCCESS && split == SPLIT;
	texts_read(nvml, handle, &device);
	nvml->handle[nvml->count] = handle;
	nvml->device[nvml->count++] = device;
}

static int devices_find(struct nvml *nvml, struct error *error)
{
	char driver[ANSWER_MAX] = "";
	unsigned count = 0;
	int result = nvml->get_count(&count);

	if (result != SUCCESS)
		return error_set(error, -ENODEV, "NVML counts no devices (error %d)", result);
	if (nvml->get_driver && nvml->get_driver(driver, sizeof(driver)) == SUCCESS)
		text_plain(driver, sizeof(driver) - 1, nvml->driver, NVML_TEXT_MAX);
	for (unsigned i = 0; i < count && nvml->count < NVML_DEVICES_MAX; i++)
		device_add(nvml, i);
	return nvml->count > 0 ? 0 : error_set(error, -ENODEV, "NVML reaches none of %u devices", count);
}

static int library_begin(struct nvml *nvml, struct error *error)
{
	int result;

	nvml->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return error_set(error, -ENOENT, "no " LIBRARY);
	if (!functions_find(nvml))
		return error_set(error, -ENOENT, LIBRARY " is too old");
	result = nvml->init();
	if (result != SUCCESS)
		return error_set(error, -ENODEV, "NVML does not start (error %d)", result);
	nvml->is_begun = true;
	return devices_find(nvml, error);
}

int nvml_open(struct nvml **ret_nvml, struct error *error)
{
	struct nvml *nvml = calloc(1, sizeof(*nvml));
	int result;

	if (!nvml)
		return error_set(error, -ENOMEM, "out of memory");
	result = library_begin(nvml, error);
	if (result) {
		nvml_close(nvml);
		return result;
	}
	*ret_nvml = nvml;
	return 0;
}

void nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return;
	if (nvml->is_begun)
		nvml->end();
	if (nvml->library)
		dlclose(nvml->library);
	free(nvml);
}

size_t nvml_count(const struct nvml *nvml)
{
	return nvml->count;
}

const struct nvml_device *nvml_device(const struct nvml *nvml, size_t index)
{
	return &nvml->device[index];
}

const char *nvml_driver(const struct nvml *nvml)
{
	return nvml->driver;
}

int nvml_energy_read(const struct nvml *nvml, size_t index, uint64_t *ret_energy_mj)
{
	unsigned long long energy_mj;

	if (nvml->get_energy(nvml->handle[index], &energy_mj) != SUCCESS)
		return -EIO;
	*ret_energy_mj = energy_mj;
	return 0;
}

int nvml_power_read(const struct nvml *nvml, size_t index, enum nvml_power kind, uint64_t *ret_power_mw)
{
	struct field_value field = {.field = POWER_FIELD};
	unsigned power_mw;

	if (kind == NVML_POWER_INSTANT) {
		if (!nvml->get_fields || nvml->get_fields(nvml->handle[index], 1, &field) != SUCCESS ||
		    field.result != SUCCESS)
			return -EIO;
		*ret_power_mw = field.value.number;
		return 0;
	}
	if (!nvml->get_power || nvml->get_power(nvml->handle[index], &power_mw) != SUCCESS)
		return -EIO;
	*ret_power_mw = power_mw;
	return 0;
}
