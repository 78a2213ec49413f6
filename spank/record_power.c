#include "spank/record_power.h"

#include "spank/record_node.h"
#include "spank/record_number.h"

#include <math.h>
#include <stdlib.h>

#define MILLIWATTS_MAX 1000000000000LL
#define MISSING_MAX    0.01 /* of a part: two nodes' parts do not end at the same moment */

static bool part_get(const json_t *json, float *ret_watts)
{
	json_int_t milliwatts = json_integer_value(json);

	*ret_watts = json_is_null(json) ? -1 : (float)milliwatts / 1000;
	return json_is_null(json) || (json_is_integer(json) && milliwatts >= 0 && milliwatts <= MILLIWATTS_MAX);
}

bool record_power_get(const json_t *json, struct record_power *ret_power)
{
	struct record_power power = {.count = (uint32_t)json_array_size(json)};

	if (!json || json_is_null(json))
		return true;
	if (!json_is_array(json) || json_array_size(json) > POWER_PARTS_MAX)
		return false;
	power.watts = calloc(power.count + 1, sizeof(*power.watts));
	if (!power.watts)
		return false;
	for (uint32_t i = 0; i < power.count; i++)
		if (!part_get(json_array_get(json, i), &power.watts[i])) {
			free(power.watts);
			return false;
		}
	*ret_power = power;
	return true;
}

void record_power_free(struct record_power *power)
{
	free(power->watts);
}

void record_power_begin(struct sum_power *sum, const struct record_node *const nodes[], size_t count)
{
	double end_s = 0;

	*sum = (struct sum_power){.start_s = INFINITY};
	for (size_t i = 0; i < count; i++) {
		sum->start_s = fmin(sum->start_s, nodes[i]->start_s);
		end_s = fmax(end_s, nodes[i]->end_s);
		if (nodes[i]->power.count > sum->parts.count)
			sum->parts.count = nodes[i]->power.count;
	}
	sum->parts.length_s = end_s - sum->start_s;
	if (!(sum->parts.length_s > 0))
		sum->parts.count = 0;
}

/* What a node's watts are to be multiplied by. Sampling takes its time, so that without gaps the joules are truer. */
static double own_of(const struct record_power *power, double length_s, double all_j, double own_j)
{
	double sampled_j = 0;

	for (uint32_t i = 0; i < power->count; i++) {
		if (power->watts[i] < 0)
			return all_j > 0 ? own_j / all_j : 0;
		sampled_j += (double)power->watts[i] * length_s / power->count;
	}
	return sampled_j > 0 ? own_j / sampled_j : 0;
}

void record_power_add(struct sum_power *sum, const struct record_node *node, double all_j, double own_j)
{
	double from_s = node->start_s - sum->start_s, length_s = node->end_s - node->start_s;
	const struct record_power *power = &node->power;
	double own = own_of(power, length_s, all_j, own_j);

	if (sum->parts.count == 0 || !(length_s > 0))
		return;
	if (power->count == 0)
		power_spread(&sum->parts, from_s, from_s + length_s, own_j / length_s);
	for (uint32_t i = 0; i < power->count; i++)
		power_spread(&sum->parts, from_s + length_s * i / power->count,
		             from_s + length_s * (i + 1) / power->count,
		             power->watts[i] < 0 ? -1 : (double)power->watts[i] * own);
}

json_t *record_power_print(const struct sum_power *sum)
{
	double width_s = sum->parts.length_s / sum->parts.count;
	json_t *json = json_array();
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
