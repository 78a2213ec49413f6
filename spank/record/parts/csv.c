#include "spank/record/parts/csv.h"

#include <stddef.h>

json_t *record_csv_write(enum csv_outcome outcome)
{
	return json_string(csv_outcome_name(outcome));
}

bool record_csv_read(const json_t *json, struct record_csv *ret_csv)
{
	*ret_csv = (struct record_csv){{0}};
	if (json_is_string(json))
		ret_csv->nodes[csv_outcome_find(json_string_value(json))] = 1;
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
		if (csv->nodes[i] > 0)
			json_object_set_new(failed, csv_outcome_name((enum csv_outcome)i),
			                    json_integer((json_int_t)csv->nodes[i]));
	if (csv->nodes[CSV_WRITTEN] > 0 || json_object_size(failed) > 0)
		json = json_pack("{s:I}", "written", (json_int_t)csv->nodes[CSV_WRITTEN]);
	if (json && json_object_size(failed) > 0)
		json_object_set(json, "failed", failed);
	json_decref(failed);
	return json;
}
