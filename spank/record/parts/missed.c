#include "spank/record/parts/missed.h"

#include "spank/base/json.h"

/* Names in the record, by enum mpiwait_note. */
static const char *const names[] = {
#define MISSED(name, ...) #name,
#include "spank/record/record_fields.def"
};

_Static_assert(sizeof(names) / sizeof(names[0]) == MPIWAIT_NOTES, "each note has a row");

void record_missed_take(const struct mpiwait_notes *page, struct record_missed *ret_missed)
{
	for (size_t i = 0; i < MPIWAIT_NOTES; i++) {
		uint32_t count = __atomic_load_n(&page->count[i], __ATOMIC_RELAXED);

		ret_missed->processes[i] = count < RECORD_MISSED_MAX ? count : RECORD_MISSED_MAX;
	}
}

json_t *record_missed_print(const struct record_missed *missed)
{
	json_t *json = json_object();

	for (size_t i = 0; i < MPIWAIT_NOTES; i++)
		object_set_some(json, names[i], json_integer((json_int_t)missed->processes[i]));
	if (json_object_size(json) > 0)
		return json;
	json_decref(json);
	return NULL;
}

bool record_missed_read(const json_t *json, struct record_missed *sum)
{
	struct record_missed step = {.processes = {0}};

	if (json && !json_is_object(json))
		return false;
	for (size_t i = 0; i < MPIWAIT_NOTES; i++)
		if (!integer_maybe(json, names[i], RECORD_MISSED_MAX, &step.processes[i]))
			return false;
	record_missed_add(sum, &step);
	return true;
}

void record_missed_add(struct record_missed *sum, const struct record_missed *from)
{
	for (size_t i = 0; i < MPIWAIT_NOTES; i++)
		integer_add(&sum->processes[i], from->processes[i], JSON_COUNT_MAX);
}
