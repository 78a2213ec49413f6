/*
 * The ranks' waits in records: written by a node, read, added up over steps and nodes, printed in the job's. Pure.
 *
 * What single ranks, functions, hooks and the profile have to say are parts of their own; here are what is a sum over
 * the ranks and nothing else, one row each of record_fields.def, and what is made of them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/stats.h"
#include "spank/record/waits/calls.h"
#include "spank/record/waits/callsites.h"
#include "spank/record/waits/phases.h"
#include "spank/record/waits/profile.h"
#include "spank/record/waits/ranks.h"
#include "spank/record/waits/service.h"

/* Sums of which the job's record has the fields of that name, WAIT_late, and of which it only has what is made of them.
 */
enum wait_sum {
#define WAIT_SUM(name, ...) WAIT_##name,
#include "spank/record/record_fields.def"
	WAIT_SHOWN,
	WAIT_SPAN_S = WAIT_SHOWN, /* from Init to Finalize */
	WAIT_SAMPLED_S,           /* in long waits, and CPU time of that */
	WAIT_SAMPLED_CPU_S,
	WAIT_SUMS
};

/* One step's on one node. Times are in microseconds. */
struct record_wait {
	struct record_ranks ranks;
	struct record_calls calls;
	struct service service;
	struct record_phases *phases; /* NULL: none was named */
	struct callsites *sites;      /* NULL: none was asked for */
	uint64_t size;                /* of the world */
	uint64_t sum[WAIT_SUMS];
	uint64_t place_bytes[MPIWAIT_PLACES];
};

struct sum_wait {
	struct sum_ranks ranks;
	struct sum_calls calls;
	struct profile *profile; /* NULL: nothing was profiled */
	struct service service;
	struct record_phases phases;
	struct callsites sites;
	double world;
	double sum[WAIT_SUMS];
	double place_bytes[MPIWAIT_PLACES];
};

/* Whether a sum is a time. */
bool record_wait_is_time(enum wait_sum sum);

/* Sets what is no list of ranks, of functions or profile. */
void record_wait_write(json_t *json, const struct record_wait *wait);

/* Takes away details; to take away twice is the same as once. NULL and null: nothing. */
void record_wait_shorten(json_t *json); /* ranks and profile: their sums stay */
void record_wait_least(json_t *json);   /* and functions, hooks and flags: a bounded number of numbers stays */

/*
 * From a step's "wait", hostile input; absent or null: zeros. Its profile is added to *profile, made where it is NULL.
 * Returns whether it is what a node writes.
 */
bool record_wait_read(const json_t *json, struct record_wait *ret_wait, struct profile **profile);
void record_wait_free(struct record_wait *wait);

/* One step's on one node; there must be room for its ranks. */
void record_wait_add(struct sum_wait *sum, const struct record_wait *from, uint32_t node, uint32_t step,
                     struct sum_waited *waited);

/* Ranks and functions in their order, once all have been added. */
void record_wait_sort(struct sum_wait *sum);
void record_wait_sum_free(struct sum_wait *sum);

/* The job's: null where no rank was seen. */
json_t *record_wait_print(const struct sum_wait *sum, const struct record_names *names,
                          const struct record_detail *detail);
