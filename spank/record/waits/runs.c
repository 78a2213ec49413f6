#include "spank/record/waits/runs.h"

void run_end(json_t *rows, struct run *run, const char *name)
{
	json_t *row;

	if (run->count == 0)
		return;
	row = name ? json_pack("[s]", name) : json_array();
	json_array_append_new(row, json_integer((json_int_t)run->first));
	json_array_append_new(row, json_integer((json_int_t)run->count));
	if (run->count > 1 && run->distance != 1)
		json_array_append_new(row, json_integer((json_int_t)run->distance));
	json_array_append_new(rows, row);
	run->count = 0;
}

void run_add(json_t *rows, struct run *run, size_t number, const char *name)
{
	if (run->count == 1)
		run->distance = number - run->last;
	else if (run->count > 1 && number - run->last != run->distance)
		run_end(rows, run, name);
	if (run->count == 0)
		run->first = number;
	run->last = number;
	run->count++;
}
