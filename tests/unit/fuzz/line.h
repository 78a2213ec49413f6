/* What must hold of a job's record, whatever its nodes' records and the job's field held. */
#pragma once

#include <errno.h>
#include <jansson.h>

#include "spank/base/cleanup.h"
#include "spank/record/merge.h"
#include "tests/unit/fuzz/fuzz.h"

/* With MPI_WAIT_FUZZ_PRINT in the environment every record is printed, for a check against its schema. */
static inline void line_check(const struct record_node *const nodes[], size_t count, const char *held)
{
	cleanup_free char *text = NULL, *again = NULL;
	cleanup_record struct record record = {.line = NULL};
	json_auto_t *json = NULL;
	struct error error = {""};
	int result;

	FUZZ_CHECK(record_merge(nodes, count, (uint32_t)count, NULL, &record, &error) == 0);
	FUZZ_CHECK(strlen(record.line) <= RECORD_MAX && !strchr(record.line, '\n'));
	json = json_loads(record.line, JSON_REJECT_DUPLICATES, NULL);
	FUZZ_CHECK(json_equal(json, record.json));
	FUZZ_CHECK(json_is_object(json_object_get(json, "mpi_wait")));
	FUZZ_CHECK(record_elapsed_s(nodes, count) >= 0);
	record_has_ranks(nodes, count);
	if (getenv("MPI_WAIT_FUZZ_PRINT"))
		puts(record.line);
	result = record_combine(held, &record, &text);
	FUZZ_CHECK(result == 0 || result == -EEXIST || result == -EALREADY || result == -EFBIG);
	FUZZ_CHECK(result != 0 || (strlen(text) <= UINT16_MAX && record_combine(text, &record, &again) == -EALREADY));
}
