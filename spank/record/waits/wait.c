#include "spank/record/waits/wait.h"

#include "spank/record/parts/number.h"

#define SUM_MAX INT64_C(1000000000000000000) /* 1e12 s */

enum type { TYPE_positive, TYPE_count, TYPE_seconds };
enum print { EVER, COUNTED, AFTER };
enum need { NEEDED, MAYBE };

struct figure {
	const char *name; /* in the job's record */
	const char *key;  /* in a node's */
	enum type type;
	enum print print;
	enum need need;
};

static const struct figure sums[WAIT_SUMS] = {
#define WAIT_SUM(name, type, print, by, since, csv, text, key, need) \
	[WAIT_##name] = {#name, #key, TYPE_##type, print, need},
#include "spank/record/record_fields.def"
        [WAIT_SPAN_S] = {"", "span_us", TYPE_seconds, EVER, NEEDED},
        [WAIT_SAMPLED_S] = {"", "sampled_us", TYPE_seconds, EVER, NEEDED},
        [WAIT_SAMPLED_CPU_S] = {"", "sampled_cpu_us", TYPE_seconds, EVER, NEEDED},
};

/* As in preload/stats.h, by bit. */
static const struct figure hooks[] = {
#define HOOK(name, type, ...) {#name, #name, TYPE_##type, COUNTED, MAYBE},
#include "spank/record/record_fields.def"
};
static const struct figure flags[] = {
#define FLAG(name, type, ...) {#name, #name, TYPE_##type, COUNTED, MAYBE},
#include "spank/record/record_fields.def"
};
static const struct figure forecasts[] = {
#define FORECAST(name, type, presence, by, since, csv, text, key) {#name, #key, TYPE_##type, EVER, MAYBE},
#include "spank/record/record_fields.def"
};

_Static_assert(sizeof(hooks) / sizeof(hooks[0]) == MPIWAIT_HOOKS, "each hook has a row");
_Static_assert(sizeof(flags) / sizeof(flags[0]) == SERVICE_FLAGS, "each flag has a row");
_Static_assert(sizeof(forecasts) / sizeof(forecasts[0]) == SERVICE_FORECAST_COUNT, "each forecast has a row");

bool record_wait_is_time(enum wait_sum sum)
{
	return sums[sum].type == TYPE_seconds;
}

/* Those of a node that are not 0. */
static void counts_write(json_t *wait, const char *key, const struct figure figures[], const double numbers[],
                         size_t count)
{
	json_t *json = json_object();

	for (size_t i = 0; i < count; i++)
		object_set_some(json, figures[i].key, json_integer((json_int_t)numbers[i]));
	object_set_some(wait, key, json);
}

void record_wait_write(json_t *json, const struct record_wait *wait, const uint64_t sums_us[WAIT_SUMS])
{
	json_object_set_new(json, "size", json_integer((json_int_t)wait->size));
	for (int i = 0; i < WAIT_SUMS; i++)
		json_object_set_new(json, sums[i].key, json_integer((json_int_t)sums_us[i]));
	if (wait->place_bytes[MPIWAIT_FAR] > 0 || wait->place_bytes[MPIWAIT_NEAR] > 0)
		json_object_set_new(json, "places",
		                    json_pack("[I, I]", (json_int_t)wait->place_bytes[MPIWAIT_FAR],
		                              (json_int_t)wait->place_bytes[MPIWAIT_NEAR]));
	counts_write(json, "hooks", hooks, wait->polls, MPIWAIT_HOOKS);
	counts_write(json, "flags", flags, wait->flagged, SERVICE_FLAGS);
	rows_write(ROWS_SPUN, json, &wait->rows[ROWS_SPUN]);
	counts_write(json, "forecast", forecasts, wait->forecast, SERVICE_FORECAST_COUNT);
	rows_write(ROWS_PHASES, json, &wait->rows[ROWS_PHASES]);
	rows_write(ROWS_SITES, json, &wait->rows[ROWS_SITES]);
}

void record_wait_shorten(json_t *json)
{
	record_ranks_shorten(json);
	json_object_del(json, "profile");
}

void record_wait_least(json_t *json)
{
	static const char *const details[] = {"hooks", "flags", "spun", "phases", "sites"};

	record_wait_shorten(json);
	json_object_clear(json_object_get(json, "calls"));
	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++)
		json_object_del(json, details[i]);
}

static void add(double sum[], const double more[], size_t count, double most)
{
	for (size_t i = 0; i < count; i++)
		sum[i] = fmin(sum[i] + more[i], most);
}

static bool sums_read(const json_t *json, struct record_wait *wait)
{
	double number;

	for (int i = 0; i < WAIT_SUMS; i++) {
		const json_t *value = json_object_get(json, sums[i].key);
		int64_t most = i == WAIT_unseen || i == WAIT_doubtful ? RECORD_RANK_MAX : SUM_MAX; /* these are ranks */

		if (!value && sums[i].need == MAYBE)
			continue;
		if (!whole_of(value, most, &number))
			return false;
		wait->sum[i] += sums[i].type == TYPE_seconds ? number / 1e6 : number;
	}
	return true;
}

static bool places_read(const json_t *places, struct record_wait *wait)
{
	double number;

	for (size_t i = 0; places && i < MPIWAIT_PLACES; i++) {
		if (!whole_of(json_array_get(places, i), SUM_MAX, &number))
			return false;
		wait->place_bytes[i] += number;
	}
	return !places || json_array_size(places) == MPIWAIT_PLACES;
}

/* Names of another release are passed over. */
static bool counts_read(const json_t *wait, const char *key, const struct figure figures[], double sum[], size_t count)
{
	const json_t *json = json_object_get(wait, key);
	double number;

	for (size_t i = 0; i < count; i++) {
		const json_t *value = json_object_get(json, figures[i].key);

		if (value && !whole_of(value, JSON_COUNT_MAX, &number))
			return false;
		if (value)
			add(&sum[i], &number, 1, JSON_COUNT_MAX);
	}
	return !json || json_is_object(json);
}

bool record_wait_read(const json_t *json, struct record_wait *sum, struct record_ranks *ret_ranks)
{
	double size;

	if (!json || json_is_null(json))
		return true;
	for (int kind = 0; kind < ROWS_KINDS; kind++)
		if (!rows_read((enum rows_kind)kind, json, &sum->rows[kind]))
			return false;
	if (!whole_of(json_object_get(json, "size"), RECORD_RANK_MAX, &size))
		return false;
	sum->size = fmax(sum->size, size);
	return record_ranks_read(json, ret_ranks) && places_read(json_object_get(json, "places"), sum) &&
	       counts_read(json, "hooks", hooks, sum->polls, MPIWAIT_HOOKS) &&
	       counts_read(json, "flags", flags, sum->flagged, SERVICE_FLAGS) &&
	       counts_read(json, "forecast", forecasts, sum->forecast, SERVICE_FORECAST_COUNT) && sums_read(json, sum);
}

void record_wait_add(struct record_wait *sum, const struct record_wait *from, uint32_t node)
{
	for (int kind = 0; kind < ROWS_KINDS; kind++)
		rows_add((enum rows_kind)kind, &sum->rows[kind], &from->rows[kind], node);
	sum->size = fmax(sum->size, from->size);
	add(sum->sum, from->sum, WAIT_SUMS, INFINITY);
	add(sum->place_bytes, from->place_bytes, MPIWAIT_PLACES, INFINITY);
	add(sum->polls, from->polls, MPIWAIT_HOOKS, JSON_COUNT_MAX);
	add(sum->flagged, from->flagged, SERVICE_FLAGS, JSON_COUNT_MAX);
	add(sum->forecast, from->forecast, SERVICE_FORECAST_COUNT, JSON_COUNT_MAX);
}

void record_wait_free(struct record_wait *wait)
{
	for (int kind = 0; kind < ROWS_KINDS; kind++)
		rows_free(&wait->rows[kind]);
}

static json_t *ratio(double part, double whole)
{
	return number(whole > 0 ? fmin(part / whole, 1) : 0, 3);
}

static void sums_print(json_t *json, const struct record_wait *sum)
{
	bool shown = false;

	for (int i = 0; i < WAIT_SHOWN; i++) {
		shown = sums[i].print == EVER || (sums[i].print == COUNTED && sum->sum[i] > 0) ||
		        (sums[i].print == AFTER && shown);
		if (shown)
			json_object_set_new(json, sums[i].name,
			                    sums[i].type == TYPE_count ? number(sum->sum[i], 0)
			                                               : record_seconds(sum->sum[i]));
	}
}

static json_t *forecast_print(const double forecast[])
{
	json_t *json = json_object();

	for (size_t i = 0; i < SERVICE_FORECAST_COUNT; i++)
		json_object_set_new(json, forecasts[i].name,
		                    forecasts[i].type == TYPE_count ? number(forecast[i], 0)
		                                                    : record_seconds_real(forecast[i]));
	return json;
}

json_t *record_wait_print(const struct record_wait *sum, const struct record_ranks *ranks,
                          const struct record_names *names, const struct record_detail *detail)
{
	double count = record_ranks_count(ranks);
	json_t *json;

	if (count == 0)
		return json_null();
	json = json_pack("{s:o, s:o, s:o, s:o, s:o}", "ranks", number(count, 0), "total_s",
	                 record_seconds(ranks->wait_s), "mean_s", record_seconds(ranks->wait_s / count), "share",
	                 ratio(ranks->wait_s, sum->sum[WAIT_SPAN_S]), "asleep_s", record_seconds(ranks->asleep_s));
	if (sum->sum[WAIT_SAMPLED_S] > 0)
		json_object_set_new(json, "cpu_share", ratio(sum->sum[WAIT_SAMPLED_CPU_S], sum->sum[WAIT_SAMPLED_S]));
	sums_print(json, sum);
	counts_write(json, "hooks", hooks, sum->polls, MPIWAIT_HOOKS);
	counts_write(json, "flags", flags, sum->flagged, SERVICE_FLAGS);
	rows_print(ROWS_SPUN, json, &sum->rows[ROWS_SPUN], names, detail);
	if (sum->forecast[SERVICE_ALLOWED_US] > 0)
		json_object_set_new(json, "forecast", forecast_print(sum->forecast));
	record_ranks_print_ends(json, ranks, names);
	rows_print(ROWS_CALLS, json, &sum->rows[ROWS_CALLS], names, detail);
	rows_print(ROWS_PHASES, json, &sum->rows[ROWS_PHASES], names, detail);
	rows_print(ROWS_SITES, json, &sum->rows[ROWS_SITES], names, detail);
	rows_print(ROWS_PROFILE, json, &sum->rows[ROWS_PROFILE], names, detail);
	if (sum->place_bytes[MPIWAIT_FAR] > 0 || sum->place_bytes[MPIWAIT_NEAR] > 0)
		json_object_set_new(json, "point_to_point",
		                    json_pack("{s:o, s:o}", "within_nodes_bytes",
		                              number(sum->place_bytes[MPIWAIT_NEAR], 0), "between_nodes_bytes",
		                              number(sum->place_bytes[MPIWAIT_FAR], 0)));
	record_ranks_print(json, ranks, names, detail);
	return json;
}
