#include "spank/record/parts/watts.h"

#include "spank/record/parts/number.h"

#include <string.h>

#define VALUE_MAX 1e15

/* First the states' watts, in the order of enum fit_state. */
static const char *const items[] = {
#define WATTS_ITEM(name, ...) #name,
#include "spank/record/record_fields.def"
};

_Static_assert(sizeof(items) / sizeof(items[0]) == RECORD_WATTS_ITEMS, "each item has a row");

#define SHARED "shared with other jobs"

/* Those that fit.c gives, and ours. */
static const char *const reasons[] = {"", "too few samples", "the ranks' states did not vary", "not significant",
                                      SHARED};

/* False for what is not finite, too. */
static bool value_ok(double value, double interval)
{
	return fabs(value) < VALUE_MAX && interval >= 0 && interval < VALUE_MAX;
}

static void value_set(json_t *object, const char *name, const struct fit_value *value)
{
	if (value->known && value_ok(value->value, value->plus_minus))
		json_object_set_new(object, name, json_pack("[f, f]", value->value, value->plus_minus));
}

static json_t *fit_write(int32_t id, const struct fit_sums *sums)
{
	struct fit fit;
	json_t *json, *states;

	fit_solve(sums, &fit);
	json = json_pack("{s:i, s:s}", "package", id, "why", fit.known ? "" : fit.why);
	if (!json || !fit.known)
		return json;
	states = json_object();
	for (int state = 0; state < FIT_STATE_COUNT; state++)
		value_set(states, items[state], &fit.watts[state]);
	json_object_set_new(json, "watts", states);
	value_set(json, items[FIT_STATE_COUNT], &fit.waiting_j);
	value_set(json, items[FIT_STATE_COUNT + 1], &fit.saved_j);
	value_set(json, items[FIT_STATE_COUNT + 2], &fit.could_save_j);
	return json;
}

/* Whether nobody else's work was in its power, as far as allocations say. */
static bool is_own(const struct energy_share *share, int32_t id)
{
	struct package package;

	if (share->node >= 1)
		return true;
	return share->has_packages && packages_sum(&share->packages, id, -1, &package) && package.own == package.cpus;
}

json_t *record_watts_write(const struct watts *watts, const struct energy_share *share)
{
	json_t *fits = watts->count > 0 ? json_array() : json_null();

	for (uint32_t i = 0; i < watts->count; i++) {
		int32_t id = watts->package[i].id;

		if (is_own(share, id))
			json_array_append_new(fits, fit_write(id, &watts->package[i].sums));
		else
			json_array_append_new(fits, json_pack("{s:i, s:s}", "package", id, "why", SHARED));
	}
	return fits;
}

static const char *reason_find(const char *text)
{
	for (size_t i = 0; text && i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcmp(text, reasons[i]) == 0)
			return reasons[i];
	return NULL;
}

/* [value, interval], or absent */
static bool item_get(json_t *json, struct record_watts *watts, int item)
{
	double value, interval;

	if (!json)
		return true;
	if (json_unpack(json, "[F, F!]", &value, &interval) || !value_ok(value, interval))
		return false;
	watts->item[item].count++;
	watts->item[item].sum += value;
	watts->item[item].square += interval * interval;
	return true;
}

static bool package_get(const json_t *json, struct record_watts *watts)
{
	const char *why = reason_find(json_string_value(json_object_get(json, "why")));
	const json_t *states = json_object_get(json, "watts");

	watts->packages++;
	if (!why || why[0]) {
		watts->why = why;
		return why;
	}
	watts->known++;
	for (int item = 0; item < RECORD_WATTS_ITEMS; item++)
		if (!item_get(json_object_get(item < FIT_STATE_COUNT ? states : json, items[item]), watts, item))
			return false;
	return true;
}

bool record_watts_read(const json_t *json, struct record_watts *ret_watts)
{
	const json_t *package;
	size_t i;

	if (json && !json_is_null(json) && (!json_is_array(json) || json_array_size(json) > PACKAGES_MAX))
		return false;
	json_array_foreach((json_t *)json, i, package) if (!package_get(package, ret_watts)) return false;
	return true;
}

void record_watts_add(struct record_watts *watts, const struct record_watts *node)
{
	watts->packages += node->packages;
	watts->known += node->known;
	watts->why = node->why ? node->why : watts->why;
	for (int item = 0; item < RECORD_WATTS_ITEMS; item++) {
		watts->item[item].count += node->item[item].count;
		watts->item[item].sum += node->item[item].sum;
		watts->item[item].square += node->item[item].square;
	}
}

/* A sum of joules that lacks a package is none. */
static bool is_shown(const struct record_watts *watts, int item)
{
	double count = watts->item[item].count;

	return count > 0 && (item < FIT_STATE_COUNT || count == watts->known);
}

json_t *record_watts_print(const struct record_watts *watts)
{
	json_t *json;

	if (watts->packages == 0)
		return NULL;
	json = json_pack("{s:o, s:o}", "packages", number(watts->packages, 0), "known", number(watts->known, 0));
	if (watts->known < watts->packages)
		json_object_set_new(json, "why", json_string(watts->why));
	for (int item = 0; item < RECORD_WATTS_ITEMS; item++) {
		double divisor = item < FIT_STATE_COUNT ? watts->item[item].count : 1;
		int decimals = item < FIT_STATE_COUNT ? 3 : 1;

		if (is_shown(watts, item))
			json_object_set_new(json, items[item],
			                    json_pack("[o, o]", number(watts->item[item].sum / divisor, decimals),
			                              number(sqrt(watts->item[item].square) / divisor, decimals)));
	}
	return json;
}
