/*
 * Rows: the tables of a record, with one row per function, phase or callsite. One table of kinds describes their
 * columns. Rows are put together from ranks, written by a node, read as hostile input, added up, and printed. Pure.
 *
 * Invariant: a table has a bounded number of named rows. All others are summed in one row without a name, which is
 * printed as "other". Sums stay below what the reader of a node's record takes.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/contract/stats.h"
#include "spank/base/json.h"
#include "spank/record/waits/ranks.h"

/*
 * Kinds of tables, and how each stands in a node's "wait" of a step. Times are in microseconds; "most" is the longest
 * wait of one rank, and "rank" that rank:
 *   "calls"    {"MPI_Recv": [calls, waits, wait time, longest wait]}
 *   "profile"  {"MPI_Send": [calls, time, wait time, bytes, [calls by class of size]]}
 *   "spun"     {"MPI_Probe": [time, CPU time]}
 *   "phases"   [[level, time, waits, wait time, most, rank]]
 *   "sites"    [[module, build_id, offset, call, waits, wait time, most, rank]]
 */
enum rows_kind { ROWS_CALLS, ROWS_PROFILE, ROWS_SPUN, ROWS_PHASES, ROWS_SITES, ROWS_KINDS };

#define ROW_NUMBERS    4
#define ROW_NAME_MAX   48
#define ROWS_PHASE_MAX (64 + 2) /* named phases, one row for no phase, one for all others */
#define ROWS_SITE_MAX  (128 + 1)

#define ROW_PHASE_FIRST 3 /* least level that a program can give a phase */
#define ROW_PHASE_NONE  0
#define ROW_PHASE_OTHER (-1)

/* Characters of a module's name, which does not begin with a dot. None has a meaning in a path or to a terminal. */
#define ROW_MODULE_LETTERS JSON_LETTERS JSON_DIGITS "._+-"

/* One row of a table. */
struct record_row {
	char name[ROW_NAME_MAX];                 /* name of a function or of a module's file; "": all others */
	char build_id[2 * MPIWAIT_BUILD_ID + 1]; /* the module's build id in hexadecimal; "": none */
	char call[ROW_NAME_MAX];                 /* function called from a callsite, "MPI_Recv"; "other": several */
	int64_t where;                           /* a phase's level; a callsite's offset in its file's addresses */
	double number[ROW_NUMBERS];              /* by the columns of the kind */
	int32_t most_rank;                       /* the rank that waited most in this row, -1: unknown */
	uint32_t most_node;                      /* index of that rank's node, in the job's */
	double *sizes; /* under profile MPIWAIT_SIZES numbers of calls, one per class of size; else NULL */
};

/*
 * A table's rows. Zeros: empty. Without has_room it grows by memory that rows_free frees; with it, `row` is the owner's
 * and has room for all rows.
 */
struct record_rows {
	size_t count;
	bool has_room;
	struct record_row *row;
};

/* Makes *row the row of a phase: ROW_PHASE_NONE, ROW_PHASE_OTHER, or a level from ROW_PHASE_FIRST on. */
void row_phase(struct record_row *row, int32_t level);

/* Adds the numbers of *more to *sum. Names and sizes of *sum stay. */
void row_add(enum rows_kind kind, struct record_row *sum, const struct record_row *more);

/* Sets a function's row in a node's table. */
void row_write(enum rows_kind kind, json_t *table, const struct record_row *row);

/* Adds a row to its equal in the table, or as a new one; copies its sizes. Without memory it is left out. */
void rows_put(enum rows_kind kind, struct record_rows *sum, const struct record_row *more);

/* Adds one node's rows to the job's; `node` becomes their most_node. */
void rows_add(enum rows_kind kind, struct record_rows *sum, const struct record_rows *from, uint32_t node);

/* Frees the rows and their sizes. */
void rows_free(struct record_rows *rows);

/*
 * Sets the table in a node's "wait" of a step, largest first and cut to what its reader takes. An empty table is left
 * out.
 */
void rows_write(enum rows_kind kind, json_t *wait, const struct record_rows *rows);

/* Adds the table of a step's "wait", hostile input. Returns true if a node can have written it. */
bool rows_read(enum rows_kind kind, const json_t *wait, struct record_rows *sum);

/*
 * Sets the table in the job's "wait": the largest rows, and all others as one. An empty table is left out, except
 * "by_call".
 */
void rows_print(enum rows_kind kind, json_t *wait, const struct record_rows *rows, const struct record_names *names,
                const struct record_detail *detail);
