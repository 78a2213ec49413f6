#include "spank/record/waits/phases.h"

#include "spank/base/json.h"
#include "spank/base/memory.h"
#include "spank/record/parts/number.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_named(int32_t level)
{
	return level >= RECORD_PHASE_FIRST;
}

/* There is always room for what is in no phase, and for all others. */
static struct record_phase *phase_find(struct record_phases *sum, int32_t level)
{
	size_t named = 0;

	for (size_t i = 0; i < sum->count; i++) {
		if (sum->phase[i].level == level)
			return &sum->phase[i];
		named += is_named(sum->phase[i].level);
	}
	if (is_named(level) && named == RECORD_PHASES_MAX)
		return phase_find(sum, RECORD_PHASE_OTHER);
	sum->phase[sum->count] = (struct record_phase){.level = level, .waited = {.most_rank = -1}};
	return &sum->phase[sum->count++];
}

void record_phases_put(struct record_phases *sum, const struct record_phase *more)
{
	struct record_phase *phase = phase_find(sum, more->level);

	integer_add(&phase->time_us, more->time_us, RECORD_US_MAX);
	record_waited_add(&phase->waited, &more->waited);
}

static int phase_compare(const void *left, const void *right)
{
	const struct record_phase *a = left, *b = right;
	uint64_t a_us = a->waited.wait_us, b_us = b->waited.wait_us;

	if (is_named(a->level) != is_named(b->level))
		return is_named(a->level) ? -1 : 1;
	if (a_us != b_us)
		return a_us < b_us ? 1 : -1;
	return (a->level > b->level) - (a->level < b->level);
}

/* Most waiting first, so many of them; then what is in none, and the rest as one. Empty where none was named. */
static void phases_choose(const struct record_phases *all, struct record_phases *ret_kept)
{
	struct record_phases sorted = *all;

	ret_kept->count = 0;
	qsort(sorted.phase, sorted.count, sizeof(sorted.phase[0]), phase_compare);
	if (sorted.count == 0 || !is_named(sorted.phase[0].level))
		return;
	for (size_t i = 0; i < sorted.count; i++) {
		struct record_phase phase = sorted.phase[i];

		if (is_named(phase.level) && i >= RECORD_PHASES_KEPT)
			phase.level = RECORD_PHASE_OTHER;
		record_phases_put(ret_kept, &phase);
	}
}

void record_phases_write(json_t *wait, const struct record_phases *phases)
{
	struct record_phases kept;
	json_t *list;

	phases_choose(phases, &kept);
	if (kept.count == 0)
		return;
	list = json_array();
	for (size_t i = 0; i < kept.count; i++) {
		const struct record_phase *phase = &kept.phase[i];
		const struct waited *waited = &phase->waited;

		json_array_append_new(list, json_pack("[i, I, I, I, I, i]", phase->level, (json_int_t)phase->time_us,
		                                      (json_int_t)waited->waits, (json_int_t)waited->wait_us,
		                                      (json_int_t)waited->most_us, waited->most_rank));
	}
	json_object_set_new(wait, "phases", list);
}

static bool phase_read(const json_t *json, struct record_phase *ret_phase)
{
	return rank_of(json_array_get(json, 0), &ret_phase->level) &&
	       (is_named(ret_phase->level) || ret_phase->level == RECORD_PHASE_NONE ||
	        ret_phase->level == RECORD_PHASE_OTHER) &&
	       integer_of(json_array_get(json, 1), RECORD_US_MAX, &ret_phase->time_us) &&
	       record_waited_read(json, 2, &ret_phase->waited);
}

bool record_phases_read(const json_t *json, struct record_phases **ret_phases)
{
	struct record_phases *phases;

	if (!json)
		return true;
	if (!json_is_array(json) || json_array_size(json) > RECORD_PHASES_KEPT + 2)
		return false;
	phases = memory_array(1, sizeof(*phases));
	if (!phases)
		return false;
	*ret_phases = phases;
	for (size_t i = 0; i < json_array_size(json); i++) {
		struct record_phase phase = {.level = 0};

		if (!phase_read(json_array_get(json, i), &phase))
			return false;
		record_phases_put(phases, &phase);
	}
	return true;
}

void record_phases_add(struct record_phases *sum, const struct record_phases *from, uint32_t node)
{
	for (size_t i = 0; from && i < from->count; i++) {
		struct record_phase phase = from->phase[i];

		phase.waited.most_node = node;
		record_phases_put(sum, &phase);
	}
}

static const char *phase_name(int32_t level, char buffer[16])
{
	if (level == RECORD_PHASE_NONE)
		return "none";
	if (level == RECORD_PHASE_OTHER)
		return "other";
	snprintf(buffer, 16, "%d", (int)level);
	return buffer;
}

static json_t *phase_print(const struct record_phase *phase, const struct record_names *names)
{
	json_t *json = json_pack("{s:o}", "time_s", record_seconds(seconds_of(phase->time_us)));

	record_waited_print(json, &phase->waited, names);
	return json;
}

void record_phases_print(json_t *wait, const struct record_phases *sum, const struct record_names *names)
{
	struct record_phases kept;
	json_t *phases;
	char name[16];

	phases_choose(sum, &kept);
	if (kept.count == 0)
		return;
	phases = json_object();
	for (size_t i = 0; i < kept.count; i++)
		json_object_set_new(phases, phase_name(kept.phase[i].level, name), phase_print(&kept.phase[i], names));
	json_object_set_new(wait, "phases", phases);
}
