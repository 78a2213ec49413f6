#include "spank/record/parts/csv.h"

#include "preload/contract/stats.h"
#include "spank/base/json.h"

#include <stddef.h>
#include <string.h>

static const char *const names[CSV_OUTCOMES] = {
        [CSV_NONE] = "none",
        [CSV_WRITTEN] = "written",
        [CSV_NO_DIRECTORY] = "no such directory",
        [CSV_NOT_ALLOWED] = "no permission to write there",
        [CSV_NO_SPACE] = "no space left",
        [CSV_KILLED] = "killed",
        [CSV_FAILED] = "failed",
};

static const enum csv_outcome outcomes[MPIWAIT_CSV_OUTCOMES] = {
        [MPIWAIT_CSV_NONE] = CSV_NONE,
        [MPIWAIT_CSV_WRITTEN] = CSV_WRITTEN,
        [MPIWAIT_CSV_NO_DIRECTORY] = CSV_NO_DIRECTORY,
        [MPIWAIT_CSV_NOT_ALLOWED] = CSV_NOT_ALLOWED,
        [MPIWAIT_CSV_NO_SPACE] = CSV_NO_SPACE,
        [MPIWAIT_CSV_FAILED] = CSV_FAILED,
};

enum csv_outcome csv_outcome_of(uint32_t claim, bool ended)
{
	enum csv_outcome outcome = claim < MPIWAIT_CSV_OUTCOMES ? outcomes[claim] : CSV_FAILED;

	return outcome == CSV_NONE && ended ? CSV_KILLED : outcome;
}

json_t *record_csv_write(enum csv_outcome outcome)
{
	return json_string(names[outcome]);
}

/* Returns the outcome with that name. A name that this release does not know counts as CSV_FAILED. */
static enum csv_outcome outcome_find(const char *name)
{
	int outcome = CSV_WRITTEN;

	while (outcome < CSV_FAILED && strcmp(names[outcome], name) != 0)
		outcome++;
	return (enum csv_outcome)outcome;
}

bool record_csv_read(const json_t *json, struct record_csv *sum)
{
	if (json_is_string(json))
		sum->nodes[outcome_find(json_string_value(json))]++;
	return !json || json_is_string(json);
}

void record_csv_add(struct record_csv *sum, const struct record_csv *from)
{
	for (size_t i = 0; i < CSV_OUTCOMES; i++)
		sum->nodes[i] += from->nodes[i];
}

json_t *record_csv_print(const struct record_csv *csv)
{
	json_t *failed = json_object(), *json = NULL;

	for (int i = CSV_WRITTEN + 1; i < CSV_OUTCOMES; i++)
		object_set_some(failed, names[i], json_integer((json_int_t)csv->nodes[i]));
	if (csv->nodes[CSV_WRITTEN] > 0 || json_object_size(failed) > 0)
		json = json_pack("{s:I}", "written", (json_int_t)csv->nodes[CSV_WRITTEN]);
	object_set_some(json, "failed", failed);
	return json;
}
