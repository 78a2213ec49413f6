/*
 * Waits by where the program called MPI from, in records: put together from ranks, written by a node, read as hostile
 * input, added up, printed in the job's. Pure. What a call site is stands in preload/wait/site.h.
 *
 * Invariant: a table takes CALLSITES_MAX of them; all others are one, without a module. Sums stay below what the reader
 * of a node's record takes.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/stats.h"
#include "spank/base/json.h"
#include "spank/record/waits/ranks.h"

#define CALLSITES_MAX  128 /* that are told apart while they are added up, */
#define CALLSITES_KEPT 24  /* and written and printed: those that waited most */

struct callsite {
	char module[MPIWAIT_MODULE_NAME];        /* the file's name; "": not known, or all others */
	char build_id[2 * MPIWAIT_BUILD_ID + 1]; /* in hexadecimal, "": it has none */
	uint64_t offset;                         /* of the instruction after the call, in the file's addresses */
	char call[48];                           /* "MPI_Recv"; "other": several */
	struct waited waited;
};

struct callsites {
	size_t count;
	struct callsite site[CALLSITES_MAX + 1];
};

/* What a module's name is made of: nothing that a path or a terminal makes something of. */
#define CALLSITE_LETTERS JSON_LETTERS JSON_DIGITS "._+-"

/* Whether it is of these, and does not begin with a dot. */
bool callsite_module_ok(const char *name);

/* Adds one, or a part of it. */
void callsites_put(struct callsites *sum, const struct callsite *more);

/*
 * Sets a step's "sites" on a node: [[module, build_id, offset, call, waits, wait_us, most_us, most_rank]], most waiting
 * first, where there are any.
 */
void callsites_write(json_t *wait, const struct callsites *sites);

/*
 * From a step's "sites", hostile input, NULL for none. Returns whether it is what a node writes. *ret_sites is the
 * caller's to free, NULL for none.
 */
bool callsites_read(const json_t *json, struct callsites **ret_sites);

/* One step's on one node; NULL for none. */
void callsites_add(struct callsites *sum, const struct callsites *from, uint32_t node);

/*
 * Sets the job's "sites": [{"module": "app", "build_id": "0f...", "offset": "0x11d2", "call": "MPI_Recv", "waits": N,
 * "wait_s": S, "max": {...}}], most waiting first; the rest comes last, as one without a module.
 */
void callsites_print(json_t *wait, const struct callsites *sum, const struct record_names *names);
