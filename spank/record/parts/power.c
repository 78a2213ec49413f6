#include "spank/record/parts/power.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

#define MILLIWATTS_MAX 1000000000000LL
#define MISSING_MAX    0.01 /* portion of a job's part that may be unknown: two nodes' parts end at other moments */

/* Returns a part's mean power in milliwatts, null if less than half of it is known. */
static json_t *part_write(const struct power_part *part)
{
	if (part->known_s <= part->missing_s)
		return json_null();
	return json_integer((json_int_t)fmax(fmin(round(part->joules / part->known_s * 1e3), MILLIWATTS_MAX), 0));
}

json_t *record_power_write(struct power_curve *curve)
{
	struct power_parts parts;
	json_t *json = power_curve_parts(curve, &parts) ? json_array() : NULL;

	for (uint32_t i = 0; json && i < parts.count; i++)
		json_array_append_new(json, part_write(&parts.part[i]));
	return json;
}

bool record_power_read(const json_t *json, struct record_power *ret_power)
{
	uint64_t milliwatts = 0;

	if (!json || json_is_null(json))
		return true;
	if (!json_is_array(json) || json_array_size(json) > POWER_PARTS_MAX)
		return false;
	for (uint32_t i = 0; i < json_array_size(json); i++) {
		const json_t *part = json_array_get(json, i);

		if (!json_is_null(part) && !integer_of(part, MILLIWATTS_MAX, &milliwatts))
			return false;
		ret_power->watts[ret_power->count++] = json_is_null(part) ? -1 : (float)milliwatts / 1000;
	}
	return true;
}

void record_power_begin(struct sum_power *sum, double start_s, double end_s, uint32_t parts)
{
	*sum = (struct sum_power){.start_s = start_s};
	sum->parts.length_s = end_s - start_s;
	sum->parts.count = sum->parts.length_s > 0 ? parts : 0;
}

/*
 * Returns the factor that makes the job's watts of a node's, whose curve lasts for length_s. If all parts are known,
 * the curve is scaled to own_j, since joules between two moments are more exact than a curve between samples. With an
 * unknown part the factor is the job's portion of the node's joules.
 */
static double job_factor(const struct record_power *power, double length_s, double all_j, double own_j)
{
	double sampled_j = 0;

	for (uint32_t i = 0; i < power->count; i++) {
		if (power->watts[i] < 0)
			return all_j > 0 ? own_j / all_j : 0;
		sampled_j += (double)power->watts[i] * length_s / power->count;
	}
	return sampled_j > 0 ? own_j / sampled_j : 0;
}

void record_power_add(struct sum_power *sum, const struct record_power *power, double start_s, double end_s,
                      double all_j, double own_j)
{
	double from_s = start_s - sum->start_s, length_s = end_s - start_s;
	double factor = job_factor(power, length_s, all_j, own_j);

	if (sum->parts.count == 0 || !(length_s > 0))
		return;
	if (power->count == 0)
		power_spread(&sum->parts, from_s, from_s + length_s, own_j / length_s);
	for (uint32_t i = 0; i < power->count; i++)
		power_spread(&sum->parts, from_s + length_s * i / power->count,
		             from_s + length_s * (i + 1) / power->count,
		             power->watts[i] < 0 ? -1 : (double)power->watts[i] * factor);
}

json_t *record_power_print(const struct sum_power *sum)
{
	double width_s = sum->parts.length_s / sum->parts.count;
	json_t *json = sum->parts.count > 0 ? json_array() : NULL;
	bool known = false;

	for (uint32_t i = 0; i < sum->parts.count; i++) {
		const struct power_part *part = &sum->parts.part[i];
		bool missing = part->missing_s > MISSING_MAX * width_s || part->known_s <= 0;

		known |= !missing;
		json_array_append_new(json, missing ? json_null() : number(part->joules / width_s, 1));
	}
	if (known)
		return json;
	json_decref(json);
	return NULL;
}
