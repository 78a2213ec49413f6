/* Which MPI functions waited, in records: written by a node, read, added up, printed in the job's "by_call". Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/stats.h"

#define RECORD_CALL_NAME_MAX 48

struct record_call {
	char name[RECORD_CALL_NAME_MAX]; /* "MPI_Recv" or "other" */
	uint64_t calls;
	uint64_t waits;
	uint64_t wait_us;
	uint64_t longest_us;
};

struct record_calls {
	size_t count;
	struct record_call *call;
};

struct sum_calls {
	size_t count;
	struct record_call call[MPIWAIT_CALLS + 2];
};

/* Whether it is the name of an MPI function, of letters and not too long. */
bool record_call_name_ok(const char *name);

/* Adds the numbers; names stay. */
void record_call_add(struct record_call *sum, const struct record_call *more);

/* Sets "MPI_Recv": [calls, waits, wait_us, longest_us]. */
void record_call_write(json_t *calls, const char *name, const struct record_call *call);

/* From a step's "calls", hostile input; the list is the caller's to free. Returns whether it is what a node writes. */
bool record_calls_read(json_t *json, struct record_calls *ret_calls);

void record_calls_add(struct sum_calls *sum, const struct record_calls *from);

/* Most waiting first. */
void record_calls_sort(struct sum_calls *sum);

/* So many of them, the rest as "other". */
json_t *record_calls_print(const struct sum_calls *sum, size_t shown);
