#include "spank/record/waits/wait.h"

#include "spank/record/parts/number.h"
#include "spank/record/waits/worlds.h"

#define SUM_MAX   INT64_C(1000000000000000000) /* bound of a sum in us: 1e12 s */
#define FORECASTS WAIT_FORECAST_naps           /* sums from here on are members of an object */

enum type { TYPE_positive, TYPE_count, TYPE_seconds };
enum print { EVER, COUNTED, AFTER };
enum need { NEEDED, MAYBE };

static const struct {
	const char *group; /* object that has the sum; "": "wait" itself */
	const char *name;  /* name in the job's record */
	const char *key;   /* name in a node's record */
	enum type type;
	enum print print;
	enum need need;
} sums[] = {
#define WAIT_SUM(name, type, print, by, since, csv, text, key, need) \
	[WAIT_##name] = {"", #name, #key, TYPE_##type, print, need},
#include "spank/record/record_fields.def"
        [WAIT_SPAN_S] = {"", "", "span_us", TYPE_seconds, EVER, NEEDED},
        [WAIT_SAMPLED_S] = {"", "", "sampled_us", TYPE_seconds, EVER, NEEDED},
        [WAIT_SAMPLED_CPU_S] = {"", "", "sampled_cpu_us", TYPE_seconds, EVER, NEEDED},
#define FORECAST(name, type, presence, by, since, csv, text, key) {"forecast", #name, #key, TYPE_##type, EVER, MAYBE},
#include "spank/record/record_fields.def"
/* Hooks and flags: in the order of their bits in preload/contract/stats.h. */
#define HOOK(name, type, ...) {"hooks", #name, #name, TYPE_##type, COUNTED, MAYBE},
#include "spank/record/record_fields.def"
#define FLAG(name, type, ...) {"flags", #name, #name, TYPE_##type, COUNTED, MAYBE},
#include "spank/record/record_fields.def"
};

_Static_assert(sizeof(sums) / sizeof(sums[0]) == WAIT_SUMS, "each hook and flag has a row");

bool record_wait_is_time(enum wait_sum sum)
{
	return sum < FORECASTS && sums[sum].type == TYPE_seconds;
}

/* Sets the sums from `first` to before `end` that are not 0, as an object. */
static void group_write(json_t *wait, int first, int end, const uint64_t numbers[])
{
	json_t *json = json_object();

	for (int i = first; i < end; i++)
		object_set_some(json, sums[i].key,
		                json_integer(numbers[i] < JSON_COUNT_MAX ? (json_int_t)numbers[i] : JSON_COUNT_MAX));
	object_set_some(wait, sums[first].group, json);
}

void record_wait_write(json_t *json, const struct record_wait *wait, const uint64_t sums_us[WAIT_SUMS])
{
	json_object_set_new(json, "size", json_integer((json_int_t)wait->size));
	for (int i = 0; i < FORECASTS; i++)
		json_object_set_new(json, sums[i].key, json_integer((json_int_t)sums_us[i]));
	if (wait->locality_bytes[MPIWAIT_FAR] > 0 || wait->locality_bytes[MPIWAIT_NEAR] > 0)
		json_object_set_new(json, "places",
		                    json_pack("[I, I]", (json_int_t)wait->locality_bytes[MPIWAIT_FAR],
		                              (json_int_t)wait->locality_bytes[MPIWAIT_NEAR]));
	group_write(json, WAIT_HOOKS, WAIT_FLAGS, sums_us);
	group_write(json, WAIT_FLAGS, WAIT_SUMS, sums_us);
	rows_write(ROWS_SPUN, json, &wait->rows[ROWS_SPUN]);
	group_write(json, FORECASTS, WAIT_HOOKS, sums_us);
	record_cost_write(json, &wait->cost);
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
	record_worlds_shorten(json);
	json_object_clear(json_object_get(json, "calls"));
	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++)
		json_object_del(json, details[i]);
}

static void sum_add(struct record_wait *wait, int sum, double more)
{
	wait->sum[sum] = fmin(wait->sum[sum] + more, sum < FORECASTS ? INFINITY : (double)JSON_COUNT_MAX);
}

/* Reads the sums. Passes over names that this release does not know. */
static bool sums_read(const json_t *json, struct record_wait *wait)
{
	for (int i = 0; i < WAIT_SUMS; i++) {
		const json_t *group = sums[i].group[0] ? json_object_get(json, sums[i].group) : json;
		const json_t *value = json_object_get(group, sums[i].key);
		int64_t most = i < FORECASTS ? SUM_MAX : JSON_COUNT_MAX;
		double number;

		if (i == WAIT_unseen || i == WAIT_doubtful) /* these count ranks */
			most = RECORD_RANK_MAX;
		if (group && !json_is_object(group))
			return false;
		if (!value && sums[i].need == MAYBE)
			continue;
		if (!whole_of(value, most, &number))
			return false;
		sum_add(wait, i, record_wait_is_time((enum wait_sum)i) ? number / 1e6 : number);
	}
	return true;
}

static bool places_read(const json_t *places, struct record_wait *wait)
{
	double number;

	for (size_t i = 0; places && i < MPIWAIT_LOCALITIES; i++) {
		if (!whole_of(json_array_get(places, i), SUM_MAX, &number))
			return false;
		wait->locality_bytes[i] += number;
	}
	return !places || json_array_size(places) == MPIWAIT_LOCALITIES;
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
	       sums_read(json, sum) && record_cost_read(json, &sum->cost);
}

void record_wait_add(struct record_wait *sum, const struct record_wait *from, uint32_t node)
{
	for (int kind = 0; kind < ROWS_KINDS; kind++)
		rows_add((enum rows_kind)kind, &sum->rows[kind], &from->rows[kind], node);
	sum->size = fmax(sum->size, from->size);
	for (int i = 0; i < WAIT_SUMS; i++)
		sum_add(sum, i, from->sum[i]);
	for (int locality = 0; locality < MPIWAIT_LOCALITIES; locality++)
		sum->locality_bytes[locality] += from->locality_bytes[locality];
	record_cost_add(&sum->cost, &from->cost);
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

static json_t *forecast_print(const double numbers[])
{
	json_t *json = json_object();

	for (int i = FORECASTS; i < WAIT_HOOKS; i++)
		json_object_set_new(json, sums[i].name,
		                    sums[i].type == TYPE_count ? number(numbers[i], 0)
		                                               : record_seconds_real(numbers[i]));
	return json;
}

json_t *record_wait_print(const struct record_wait *sum, const struct record_ranks *ranks,
                          const struct record_names *names, const struct record_detail *detail)
{
	double count = record_ranks_count(ranks);
	uint64_t counts[WAIT_SUMS];
	json_t *json;

	if (count == 0)
		return json_null();
	json = json_pack("{s:o, s:o, s:o, s:o, s:o}", "ranks", number(count, 0), "total_s",
	                 record_seconds(ranks->wait_s), "mean_s", record_seconds(ranks->wait_s / count), "share",
	                 ratio(ranks->wait_s, sum->sum[WAIT_SPAN_S]), "asleep_s", record_seconds(ranks->asleep_s));
	if (sum->sum[WAIT_SAMPLED_S] > 0)
		json_object_set_new(json, "cpu_share", ratio(sum->sum[WAIT_SAMPLED_CPU_S], sum->sum[WAIT_SAMPLED_S]));
	sums_print(json, sum);
	for (int i = WAIT_HOOKS; i < WAIT_SUMS; i++)
		counts[i] = (uint64_t)sum->sum[i];
	group_write(json, WAIT_HOOKS, WAIT_FLAGS, counts);
	group_write(json, WAIT_FLAGS, WAIT_SUMS, counts);
	rows_print(ROWS_SPUN, json, &sum->rows[ROWS_SPUN], names, detail);
	if (sum->sum[WAIT_FORECAST_allowed_s] > 0)
		json_object_set_new(json, "forecast", forecast_print(sum->sum));
	record_cost_print(json, &sum->cost);
	record_ranks_print_ends(json, ranks, names);
	rows_print(ROWS_CALLS, json, &sum->rows[ROWS_CALLS], names, detail);
	rows_print(ROWS_PHASES, json, &sum->rows[ROWS_PHASES], names, detail);
	rows_print(ROWS_SITES, json, &sum->rows[ROWS_SITES], names, detail);
	rows_print(ROWS_PROFILE, json, &sum->rows[ROWS_PROFILE], names, detail);
	if (sum->locality_bytes[MPIWAIT_FAR] > 0 || sum->locality_bytes[MPIWAIT_NEAR] > 0)
		json_object_set_new(json, "point_to_point",
		                    json_pack("{s:o, s:o}", "within_nodes_bytes",
		                              number(sum->locality_bytes[MPIWAIT_NEAR], 0), "between_nodes_bytes",
		                              number(sum->locality_bytes[MPIWAIT_FAR], 0)));
	record_ranks_print(json, ranks, names, detail);
	return json;
}
