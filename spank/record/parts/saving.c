#include "spank/record/parts/saving.h"

#include <string.h>

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

#define MILLIWATTS_MAX INT64_C(1000000000000) /* most that a node writes, and that is accepted of one */
#define UNCOMPARED     "no periods were compared"
#define PERCENT_MAX    100
#define ERROR_MAX      100 /* percent: a wider interval tells nothing */

/* Returns watts as a JSON integer of milliwatts, rounded up, and cut at MILLIWATTS_MAX. */
static json_t *milliwatts(double watts)
{
	return json_integer((json_int_t)fmin(ceil(watts * 1e3), (double)MILLIWATTS_MAX));
}

json_t *record_saving_write(const struct saving *saving, const char *refusal)
{
	struct saving_result result;
	json_t *json;

	if (!saving_seen(saving))
		return NULL;
	saving_solve(saving, &result);
	if (refusal || result.why)
		return json_pack("{s:s}", "why", refusal ? refusal : result.why);
	json = json_pack("{s:I, s:o, s:o, s:o}", "looks", (json_int_t)result.looks, "look_mw",
	                 milliwatts(result.look_w), "beside_mw", milliwatts(result.beside_w), "error_mw",
	                 milliwatts(result.error_w));
	if (result.at_least)
		json_object_set_new(json, "at_least", json_true());
	return json;
}

/*
 * Reads a member that is in milliwatts, as watts. Returns false if it is missing, no integer, negative or above
 * MILLIWATTS_MAX.
 */
static bool watts_get(const json_t *json, const char *key, double *ret_watts)
{
	if (!whole_of(json_object_get(json, key), MILLIWATTS_MAX, ret_watts))
		return false;
	*ret_watts /= 1e3;
	return true;
}

bool record_saving_read(const json_t *json, struct record_saving *ret_saving)
{
	struct record_saving saving = {.nodes = 1};
	const json_t *at_least = json_object_get(json, "at_least");

	if (!json)
		return true;
	if (json_object_get(json, "why"))
		return text_get(json, "why", ret_saving->why, sizeof(ret_saving->why), JSON_LETTERS " ");
	if (!whole_of(json_object_get(json, "looks"), JSON_COUNT_MAX, &saving.looks) ||
	    !watts_get(json, "look_mw", &saving.look_w) || !watts_get(json, "beside_mw", &saving.beside_w) ||
	    !watts_get(json, "error_mw", &saving.error_w) || !(saving.look_w > 0) || !(saving.looks > 0) ||
	    (at_least && !json_is_true(at_least)))
		return false;
	saving.at_least = at_least;
	*ret_saving = saving;
	return true;
}

void record_saving_add(struct record_saving *sum, const struct record_saving *node)
{
	if (!sum->why[0])
		memcpy(sum->why, node->why, sizeof(sum->why));
	sum->nodes += node->nodes;
	sum->looks = fmax(sum->looks, node->looks);
	sum->look_w += node->look_w;
	sum->beside_w += node->beside_w;
	sum->error_w += node->error_w;
	sum->at_least |= node->at_least;
}

static json_t *saved_print(const struct record_saving *sum, const struct record_saving_cost *cost)
{
	double ratio = sum->beside_w / sum->look_w, longer = 1 + cost->longer;
	double percent = 100 * (1 - longer * ratio);
	double error = 100 * hypot(longer * sum->error_w / sum->look_w, ratio * cost->error);

	if (fabs(percent) > PERCENT_MAX || error > ERROR_MAX)
		return NULL;
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "percent", number(percent, 2), "error", number(error, 2), "looks",
	                 number(sum->looks, 0), "look_w", number(sum->look_w, 2), "beside_w", number(sum->beside_w, 2));
}

void record_saving_print(json_t *energy, const struct record_saving *sum, size_t reported,
                         const struct record_saving_cost *cost)
{
	json_t *json = sum->nodes > 0 && cost->known ? saved_print(sum, cost) : NULL;
	const char *why = sum->nodes > 0 ? (cost->known ? SAVING_FEW : UNCOMPARED) : sum->why;

	if (!json) {
		if (why[0])
			json_object_set_new(energy, "saved_why", json_string(why));
		return;
	}
	if (sum->at_least)
		json_object_set_new(json, "at_least", json_true());
	if (sum->nodes < reported)
		json_object_set_new(json, "nodes", number((double)sum->nodes, 0));
	json_object_set_new(energy, "saved", json);
}
