#include "spank/machine/rsmi.h"

#include "spank/base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define SUCCESS  0   /* RSMI_STATUS_SUCCESS */
#define TEXT_MAX 256 /* bytes; the library writes no longer name */

/* The library's functions: member here, name there, arguments. All return rsmi_status_t, an enum. */
#define FUNCTIONS(row)                                                              \
	row(init, "rsmi_init", (uint64_t flags)) row(end, "rsmi_shut_down", (void)) \
	        row(get_count, "rsmi_num_monitor_devices", (uint32_t * count))      \
	                row(get_energy, "rsmi_dev_energy_count_get", (uint32_t, uint64_t *, float *, uint64_t *))

/* Functions that the library may lack; their member is NULL then. */
#define FUNCTIONS_MAYBE(row)                                           \
	row(get_name, "rsmi_dev_name_get", (uint32_t, char *, size_t)) \
	        row(get_minor, "rsmi_dev_drm_render_minor_get", (uint32_t, uint32_t *))

struct rsmi {
	void *library;
#define MEMBER(member, name, arguments) int(*member) arguments;
	FUNCTIONS(MEMBER)
	FUNCTIONS_MAYBE(MEMBER)
#undef MEMBER
};

/* A device as the library counts it. */
struct device {
	uint32_t minor;
	bool has_energy;
	uint64_t energy_uj;
};

/* Names of the library. Distributions and releases of ROCm number it differently; the used part is the same in all. */
static const char *const libraries[] = {"librocm_smi64.so",
                                        "librocm_smi64.so.1",
                                        "librocm_smi64.so.8",
                                        "librocm_smi64.so.7",
                                        "librocm_smi64.so.6",
                                        "librocm_smi64.so.5",
                                        "/opt/rocm/lib/librocm_smi64.so"};

static bool library_open(struct rsmi *rsmi)
{
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && !rsmi->library; i++)
		rsmi->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
	return rsmi->library != NULL;
}

static bool functions_find(struct rsmi *rsmi)
{
#define FIND(member, name, arguments) *(void **)&rsmi->member = dlsym(rsmi->library, name);
	FUNCTIONS(FIND)
	FUNCTIONS_MAYBE(FIND)
#undef FIND
#define AND(member, name, arguments) &&rsmi->member
	return true FUNCTIONS(AND);
#undef AND
}

static void name_read(const struct rsmi *rsmi, uint32_t index, char ret_name[RSMI_NAME_MAX])
{
	char answer[TEXT_MAX] = "";

	if (rsmi->get_name && rsmi->get_name(index, answer, sizeof(answer) - 1) != SUCCESS)
		answer[0] = '\0';
	text_plain(answer, sizeof(answer) - 1, ret_name, RSMI_NAME_MAX);
}

static struct device device_read(const struct rsmi *rsmi, uint32_t index)
{
	struct device device = {.minor = index};
	uint64_t counter = 0, mark_ns;
	float resolution_uj = 0;

	if (rsmi->get_minor && rsmi->get_minor(index, &device.minor) != SUCCESS)
		device.minor = index;
	device.has_energy = rsmi->get_energy(index, &counter, &resolution_uj, &mark_ns) == SUCCESS &&
	                    resolution_uj > 0 && resolution_uj < 1e6F;
	if (device.has_energy) {
		double energy_uj = (double)counter * (double)resolution_uj;

		device.energy_uj = energy_uj < (double)INT64_MAX ? (uint64_t)energy_uj : INT64_MAX;
	}
	return device;
}

/* Returns the number of devices with a render node of a lower number. */
static uint32_t position_of(const struct device devices[], uint32_t count, uint32_t index)
{
	uint32_t position = 0;

	for (uint32_t i = 0; i < count; i++)
		position += devices[i].minor < devices[index].minor ||
		            (i < index && devices[i].minor == devices[index].minor);
	return position;
}

/*
 * Returns true if the device is a die of a module of two. The second die's counter stays at 0: the first one's counts
 * for both.
 */
static bool is_shared(const struct device devices[], uint32_t count, uint32_t index)
{
	bool is_second = devices[index].has_energy && devices[index].energy_uj == 0;
	bool has_second = index + 1 < count && devices[index + 1].has_energy && devices[index + 1].energy_uj == 0;

	return is_second || has_second;
}

/* Reads all devices that have a counter. Returns as rsmi_read. */
static int devices_read(const struct rsmi *rsmi, struct rsmi_counter ret_counters[RSMI_DEVICES_MAX], size_t *ret_count,
                        size_t *ret_missing, struct error *error)
{
	struct device devices[RSMI_DEVICES_MAX];
	uint32_t count = 0;
	int result = rsmi->get_count(&count);

	if (result != SUCCESS || count == 0)
		return error_set(error, -ENODEV, "RSMI counts no devices (error %d)", result);
	count = count < RSMI_DEVICES_MAX ? count : RSMI_DEVICES_MAX;
	for (uint32_t i = 0; i < count; i++)
		devices[i] = device_read(rsmi, i);
	for (uint32_t i = 0; i < count; i++) {
		struct rsmi_counter *counter = &ret_counters[*ret_count];

		*ret_missing += !devices[i].has_energy;
		if (!devices[i].has_energy)
			continue;
		counter->number = position_of(devices, count, i);
		counter->index = i;
		counter->is_shared = is_shared(devices, count, i);
		counter->energy_uj = devices[i].energy_uj;
		name_read(rsmi, i, counter->name);
		++*ret_count;
	}
	return 0;
}

int rsmi_read(struct rsmi_counter ret_counters[RSMI_DEVICES_MAX], size_t *ret_count, size_t *ret_missing,
              struct error *error)
{
	struct rsmi rsmi = {.library = NULL};
	int result;

	*ret_count = *ret_missing = 0;
	if (!library_open(&rsmi))
		return error_set(error, -ENOENT, "no librocm_smi64.so");
	if (!functions_find(&rsmi)) {
		result = error_set(error, -ENOENT, "librocm_smi64.so is too old");
	} else if ((result = rsmi.init(0)) != SUCCESS) {
		result = error_set(error, -ENODEV, "RSMI does not begin (error %d)", result);
	} else {
		result = devices_read(&rsmi, ret_counters, ret_count, ret_missing, error);
		rsmi.end();
	}
	dlclose(rsmi.library);
	return result;
}
