#include "spank/record/parts/gpus.h"

#include "spank/base/json.h"
#include "spank/machine/processors.h"
#include "spank/record/parts/number.h"

#include <string.h>

#define DEVICES_MAX PROCESSORS_MAX /* most devices in a node, and largest number of one */
#define UJ_MAX      INT64_MAX
#define SIMULATED   "simulated"
#define MIXED       "mixed"
#define SPLIT       "a GPU is split between jobs"

static uint32_t given_count(const struct processors *given)
{
	uint32_t count = 0;

	for (size_t i = 0; i < sizeof(given->word) / sizeof(given->word[0]); i++)
		count += (uint32_t)__builtin_popcountll(given->word[i]);
	return count;
}

/* Sum over the job's devices on one node. */
struct tally {
	uint32_t counted;
	uint64_t uj;
	const char *why;
	const char *source; /* source of the devices that count, "mixed" if they differ; NULL: none counts */
	json_t *devices;
};

/* Least power of a device for computing, idle or not, in W. */
#define LEAST_W UINT64_C(1)

/*
 * Returns true if the counter advanced by less than the device can have used. Without persistence mode it restarts
 * whenever no process uses the device, which can happen between the job's begin and end.
 */
static bool is_too_low(const struct meter *meter, const struct meter *later)
{
	return later->energy_uj - meter->energy_uj < LEAST_W * (later->mark - meter->mark);
}

/*
 * Returns why a device does not count, NULL if it does. later: its meter at the job's end, NULL if there is none
 * (meter_later).
 */
static const char *loss_of(const struct gpus_window *window, const struct meter *meter, const struct meter *later)
{
	if (!later)
		return window->to->why[0]             ? window->to->why
		       : meter->source == METER_INTEL ? "a GPU's counter was not read before it could wrap, or is gone"
		                                      : "a GPU's counter restarted, or is gone";
	if (later->is_split || meter->is_split)
		return meter->source == METER_NVML ? SPLIT : "a GPU shares another's counter";
	return is_too_low(meter, later) ? "a GPU's counter restarted: is persistence mode off?" : NULL;
}

/* Returns the source of devices of two sources; either may be NULL. */
static const char *source_with(const char *source, const char *other)
{
	if (!source || !other)
		return source ? source : other;
	return strcmp(source, other) == 0 ? source : MIXED;
}

/* Counts a device of the job, or notes why it does not count. */
static void device_count(const struct gpus_window *window, const struct meter *meter, struct tally *tally)
{
	const struct meter *later = meter_later(meter, window->to);
	const char *why = loss_of(window, meter, later);
	uint64_t uj;

	if (why) {
		tally->why = why;
		return;
	}
	uj = later->energy_uj - meter->energy_uj;
	tally->counted++;
	tally->source = source_with(tally->source, meter_source_name(meter->source));
	integer_add(&tally->uj, uj, UJ_MAX);
	if (json_array_size(tally->devices) < RECORD_GPUS_SHOWN)
		json_array_append_new(tally->devices, json_pack("[I, s, o]", (json_int_t)meter->number, meter->name,
		                                                whole_json(uj, UJ_MAX)));
}

/* Returns true if MIG splits a device that comes before this one. Slurm's list has each of its parts in its place. */
static bool is_behind_parts(const struct meters *from, const struct meter *meter)
{
	for (uint32_t i = 0; i < from->count && meter->source == METER_NVML; i++) {
		const struct meter *other = &from->meter[i];

		if (other->source == METER_NVML && other->is_split &&
		    (other->number < meter->number || other->place < meter->place))
			return true;
	}
	return false;
}

/*
 * Counts the job's devices. Slurm's numbers are places in its list of the node's devices, which is in the order of the
 * bus or of the files' names. Where these differ, a device counts if it is the job's by both.
 */
static void devices_count(const struct gpus_window *window, const struct processors *numbers, uint32_t given,
                          struct tally *tally)
{
	for (uint32_t i = 0; i < window->from->count && tally->counted < given; i++) {
		const struct meter *meter = &window->from->meter[i];
		bool by_file = processors_has(numbers, meter->number), by_bus = processors_has(numbers, meter->place);

		if (!meter_is_device(meter) || !(by_file || by_bus))
			continue;
		if (is_behind_parts(window->from, meter))
			tally->why = SPLIT;
		else if (by_file != by_bus)
			tally->why = "Slurm and the driver may number the GPUs differently";
		else
			device_count(window, meter, tally);
	}
}

/* Returns why not all devices count; "": all do. */
static const char *why_of(const struct gpus_window *window, const struct tally *tally, uint32_t given)
{
	if (tally->counted == given && given > 0)
		return "";
	if (strcmp(window->list, RECORD_GPUS_PARTS) == 0)
		return SPLIT;
	if (given == 0)
		return "Slurm's list of the job's GPUs is not one of numbers";
	if (tally->why)
		return tally->why;
	if (window->from->why[0])
		return window->from->why;
	return window->to->why[0] ? window->to->why : "a GPU had no counter at the job's begin";
}

json_t *record_gpus_write(const struct gpus_window *window)
{
	struct tally tally = {.counted = 0};
	struct processors numbers = {.word = {0}};
	uint32_t given;

	if (!window->list[0])
		return NULL;
	if (processors_parse(window->list, &numbers))
		memset(&numbers, 0, sizeof(numbers));
	given = given_count(&numbers);
	tally.devices = json_array();
	devices_count(window, &numbers, given, &tally);
	return json_pack("{s:I, s:I, s:I, s:o, s:s, s:s, s:o}", "given", (json_int_t)given, "counted",
	                 (json_int_t)tally.counted, "present",
	                 (json_int_t)(window->present > given ? window->present : given), "uj",
	                 whole_json(tally.uj, UJ_MAX), "source",
	                 window->simulated ? SIMULATED
	                 : tally.source    ? tally.source
	                                   : "nvml",
	                 "why", why_of(window, &tally, given), "devices", tally.devices);
}

bool record_gpus_are_counted(const json_t *json)
{
	json_int_t given = json_integer_value(json_object_get(json, "given"));

	return given > 0 && json_integer_value(json_object_get(json, "counted")) == given;
}

static bool device_read(const json_t *row, const char *node, json_t *devices)
{
	char name[METER_NAME_MAX];
	uint64_t number_of_device;
	double uj;

	if (!json_is_array(row) || json_array_size(row) != 3 ||
	    !integer_of(json_array_get(row, 0), METER_NUMBER_MAX, &number_of_device) ||
	    !text_of(json_array_get(row, 1), name, sizeof(name), JSON_PLAIN) ||
	    !whole_of(json_array_get(row, 2), UJ_MAX, &uj))
		return false;
	json_array_append_new(devices,
	                      json_pack("{s:s, s:I, s:s, s:o}", "node", node, "number", (json_int_t)number_of_device,
	                                "name", name, "joules", number(uj / 1e6, 1)));
	return true;
}

static bool devices_read(const json_t *rows, const char *node, json_t *ret_devices)
{
	const json_t *row;
	size_t i;

	if (!json_is_array(rows) || json_array_size(rows) > RECORD_GPUS_SHOWN)
		return false;
	json_array_foreach((json_t *)rows, i, row)
	{
		if (!device_read(row, node, ret_devices))
			return false;
	}
	return true;
}

/* Returns the source with that name. One that this release does not write counts as simulated. */
static const char *source_known(const char *source)
{
	static const char *const known[] = {"nvml", "rsmi", "intel", MIXED};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(source, known[i]) == 0)
			return known[i];
	return SIMULATED;
}

/* Returns the source of a sum, which is simulated if a part of it is. */
static const char *source_sum(const char *sum, const char *from)
{
	if (sum && from && (strcmp(sum, SIMULATED) == 0 || strcmp(from, SIMULATED) == 0))
		return SIMULATED;
	return source_with(sum, from);
}

bool record_gpus_read(const json_t *json, const char *node, struct record_gpus *ret_gpus)
{
	const char *source = json_string_value(json_object_get(json, "source"));
	double uj;

	if (!json)
		return true;
	ret_gpus->devices = json_array();
	if (!source || !whole_of(json_object_get(json, "given"), DEVICES_MAX, &ret_gpus->given) ||
	    !whole_of(json_object_get(json, "counted"), DEVICES_MAX, &ret_gpus->counted) ||
	    !whole_of(json_object_get(json, "present"), DEVICES_MAX, &ret_gpus->present) ||
	    !whole_of(json_object_get(json, "uj"), UJ_MAX, &uj) || ret_gpus->counted > ret_gpus->given ||
	    ret_gpus->given > ret_gpus->present ||
	    !text_get(json, "why", ret_gpus->why, sizeof(ret_gpus->why), JSON_PLAIN) ||
	    !devices_read(json_object_get(json, "devices"), node, ret_gpus->devices))
		return false;
	ret_gpus->joules = ret_gpus->counted > 0 ? uj / 1e6 : 0;
	ret_gpus->source = source_known(source);
	return true;
}

void record_gpus_free(struct record_gpus *gpus)
{
	json_decref(gpus->devices);
}

void record_gpus_add(struct record_gpus *sum, const struct record_gpus *from)
{
	json_t *device;
	size_t i;

	sum->given += from->given;
	sum->counted += from->counted;
	sum->present += from->present;
	sum->joules += from->joules;
	sum->source = source_sum(sum->source, from->source);
	if (!sum->why[0])
		memcpy(sum->why, from->why, sizeof(sum->why));
	if (!sum->devices)
		sum->devices = json_array();
	json_array_foreach(from->devices, i, device)
	{
		if (json_array_size(sum->devices) < RECORD_GPUS_SHOWN)
			json_array_append(sum->devices, device);
	}
}

json_t *record_gpus_print(const struct record_gpus *sum, json_t *energy)
{
	const char *source = sum->source ? sum->source : "nvml";
	json_t *json;

	if (sum->given == 0 && !sum->why[0])
		return energy;
	if (sum->counted > 0 && json_is_null(energy)) {
		json_decref(energy);
		energy = json_pack("{s:o, s:s, s:s, s:{}}", "joules", number(sum->joules, 1), "scope", "gpus", "source",
		                   source, "zones_j");
	}
	if (!json_is_object(energy))
		return energy;
	json = json_pack("{s:o, s:o, s:o, s:s}", "given", number(sum->given, 0), "counted", number(sum->counted, 0),
	                 "present", number(sum->present, 0), "source", source);
	object_set_some(json, "why", json_string(sum->why));
	object_set_some(json, "devices", json_incref(sum->devices));
	if (sum->counted > 0)
		json_object_set_new(energy, "gpu_joules", number(sum->joules, 1));
	json_object_set_new(energy, "gpus", json);
	return energy;
}
