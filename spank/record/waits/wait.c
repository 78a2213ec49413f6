#include "spank/record/waits/wait.h"

#include "spank/base/json.h"
#include "spank/record/parts/number.h"

#include <stdlib.h>
#include <string.h>

#define SUM_MAX INT64_C(1000000000000000000) /* 1e12 s */

enum type { TYPE_count, TYPE_seconds };
enum print { EVER, COUNTED, AFTER };
enum need { NEEDED, MAYBE };

static const struct {
	const char *name; /* in the job's record */
	const char *key;  /* in a node's */
	enum type type;
	enum print print;
	enum need need;
} sums[WAIT_SUMS] = {
#define WAIT_SUM(name, type, print, by, since, csv, text, key, need) \
	[WAIT_##name] = {#name, #key, TYPE_##type, print, need},
#include "spank/record/record_fields.def"
        [WAIT_SPAN_S] = {"", "span_us", TYPE_seconds, EVER, NEEDED},
        [WAIT_SAMPLED_S] = {"", "sampled_us", TYPE_seconds, EVER, NEEDED},
        [WAIT_SAMPLED_CPU_S] = {"", "sampled_cpu_us", TYPE_seconds, EVER, NEEDED},
};

bool record_wait_is_time(enum wait_sum sum)
{
	return sums[sum].type == TYPE_seconds;
}

void record_wait_write(json_t *json, const struct record_wait *wait)
{
	json_object_set_new(json, "size", json_integer((json_int_t)wait->size));
	for (int i = 0; i < WAIT_SUMS; i++)
		json_object_set_new(json, sums[i].key, json_integer((json_int_t)wait->sum[i]));
	if (wait->place_bytes[MPIWAIT_FAR] > 0 || wait->place_bytes[MPIWAIT_NEAR] > 0)
		json_object_set_new(json, "places",
		                    json_pack("[I, I]", (json_int_t)wait->place_bytes[MPIWAIT_FAR],
		                              (json_int_t)wait->place_bytes[MPIWAIT_NEAR]));
	service_write(&wait->service, json);
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

static bool sums_read(const json_t *json, struct record_wait *ret_wait)
{
	for (int i = 0; i < WAIT_SUMS; i++) {
		const json_t *value = json_object_get(json, sums[i].key);
		int64_t most = i == WAIT_unseen || i == WAIT_doubtful ? RECORD_RANK_MAX : SUM_MAX; /* these are ranks */

		if (!value && sums[i].need == MAYBE)
			continue;
		if (!integer_of(value, most, &ret_wait->sum[i]))
			return false;
	}
	return true;
}

static bool places_read(const json_t *places, struct record_wait *ret_wait)
{
	for (size_t i = 0; places && i < MPIWAIT_PLACES; i++)
		if (!integer_of(json_array_get(places, i), SUM_MAX, &ret_wait->place_bytes[i]))
			return false;
	return !places || json_array_size(places) == MPIWAIT_PLACES;
}

bool record_wait_read(const json_t *json, struct record_wait *ret_wait, struct profile **profile)
{
	if (!json || json_is_null(json))
		return true;
	return profile_read(json_object_get(json, "profile"), profile) &&
	       places_read(json_object_get(json, "places"), ret_wait) && record_ranks_read(json, &ret_wait->ranks) &&
	       record_calls_read(json_object_get(json, "calls"), &ret_wait->calls) &&
	       service_read(json, &ret_wait->service) &&
	       record_phases_read(json_object_get(json, "phases"), &ret_wait->phases) &&
	       callsites_read(json_object_get(json, "sites"), &ret_wait->sites) &&
	       integer_get(json, "size", RECORD_RANK_MAX, &ret_wait->size) && sums_read(json, ret_wait);
}

void record_wait_free(struct record_wait *wait)
{
	free(wait->ranks.rank);
	free(wait->calls.call);
	free(wait->phases);
	free(wait->sites);
}

void record_wait_add(struct sum_wait *sum, const struct record_wait *from, uint32_t node, uint32_t step,
                     struct sum_waited *waited)
{
	record_ranks_add(&sum->ranks, &from->ranks, node, step, waited);
	record_calls_add(&sum->calls, &from->calls);
	service_add(&sum->service, &from->service);
	record_phases_add(&sum->phases, from->phases, node);
	callsites_add(&sum->sites, from->sites, node);
	for (int place = 0; place < MPIWAIT_PLACES; place++)
		sum->place_bytes[place] += (double)from->place_bytes[place];
	for (int i = 0; i < WAIT_SUMS; i++)
		sum->sum[i] += record_wait_is_time((enum wait_sum)i) ? seconds_of(from->sum[i]) : (double)from->sum[i];
	sum->world = fmax(sum->world, (double)from->size);
}

void record_wait_sort(struct sum_wait *sum)
{
	record_ranks_sort(&sum->ranks, sum->sum[WAIT_unseen] == 0, sum->world);
	record_calls_sort(&sum->calls);
}

void record_wait_sum_free(struct sum_wait *sum)
{
	free(sum->ranks.rank);
	free(sum->profile);
}

static json_t *ratio(double part, double whole)
{
	return number(whole > 0 ? fmin(part / whole, 1) : 0, 3);
}

static void sums_print(json_t *json, const struct sum_wait *sum)
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

json_t *record_wait_print(const struct sum_wait *sum, const struct record_names *names,
                          const struct record_detail *detail)
{
	double ranks = record_ranks_count(&sum->ranks), total_s = sum->ranks.total_s;
	json_t *json;

	if (ranks == 0)
		return json_null();
	json = json_pack("{s:o, s:o, s:o, s:o, s:o}", "ranks", number(ranks, 0), "total_s", record_seconds(total_s),
	                 "mean_s", record_seconds(total_s / ranks), "share", ratio(total_s, sum->sum[WAIT_SPAN_S]),
	                 "asleep_s", record_seconds(sum->ranks.asleep_s));
	if (sum->sum[WAIT_SAMPLED_S] > 0)
		json_object_set_new(json, "cpu_share", ratio(sum->sum[WAIT_SAMPLED_CPU_S], sum->sum[WAIT_SAMPLED_S]));
	sums_print(json, sum);
	service_print(&sum->service, json);
	record_ranks_print_ends(json, &sum->ranks, names);
	json_object_set_new(json, "by_call", record_calls_print(&sum->calls, detail->calls));
	record_phases_print(json, &sum->phases, names);
	callsites_print(json, &sum->sites, names);
	if (sum->profile)
		json_object_set_new(json, "profile", profile_print(sum->profile, detail->calls, detail->sizes));
	if (sum->place_bytes[MPIWAIT_FAR] > 0 || sum->place_bytes[MPIWAIT_NEAR] > 0)
		json_object_set_new(json, "point_to_point",
		                    json_pack("{s:o, s:o}", "within_nodes_bytes",
		                              number(sum->place_bytes[MPIWAIT_NEAR], 0), "between_nodes_bytes",
		                              number(sum->place_bytes[MPIWAIT_FAR], 0)));
	record_ranks_print(json, &sum->ranks, names, detail);
	return json;
}
