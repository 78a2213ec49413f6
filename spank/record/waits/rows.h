/*
 * Rows: the tables of a record, with a row for each function, phase or place of the program. One table of kinds says
 * what its columns are: put together from ranks, written by a node, read as hostile input, added up, printed. Pure.
 *
 * Invariant: a table tells a bounded number of rows apart; all others are one, without a name, "other" where it is
 * printed. Sums stay below what the reader of a node's record takes.
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
 * What a row's numbers are, and how it stands in a step's "wait" in a node's record; times are in microseconds:
 *   "calls"    {"MPI_Recv": [calls, waits, time in these, the longest]}
 *   "profile"  {"MPI_Send": [calls, time, of that waiting, bytes, [calls by class of size]]}
 *   "spun"     {"MPI_Probe": [time, CPU time]}
 *   "phases"   [[level, time, waits, time in these, the most of a rank, that rank]]
 *   "sites"    [[module, build_id, offset, call, waits, time in these, the most of a rank, that rank]]
 */
enum rows_kind { ROWS_CALLS, ROWS_PROFILE, ROWS_SPUN, ROWS_PHASES, ROWS_SITES, ROWS_KINDS };

#define ROW_NUMBERS    4
#define ROW_NAME_MAX   48
#define ROWS_PHASE_MAX (64 + 2) /* rows that such a table can have: also of what is in no phase, and of all others */
#define ROWS_SITE_MAX  (128 + 1)

#define ROW_PHASE_FIRST 3 /* the least number that the program gives a phase */
#define ROW_PHASE_NONE  0
#define ROW_PHASE_OTHER (-1)

/* What a module's name is made of, but for a dot in front: nothing that a path or a terminal makes something of. */
#define ROW_MODULE_LETTERS JSON_LETTERS JSON_DIGITS "._+-"

struct record_row {
	char name[ROW_NAME_MAX];                 /* a function's, or a module's file; "": all others */
	char build_id[2 * MPIWAIT_BUILD_ID + 1]; /* a module's, in hexadecimal, "": it has none */
	char call[ROW_NAME_MAX];                 /* from a site: "MPI_Recv"; "other": several */
	int64_t place;                           /* a phase's level; after a site's call, in its file's addresses */
	double number[ROW_NUMBERS];
	int32_t most_rank;  /* that waited most there, -1: not known */
	uint32_t most_node; /* index of its node, in the job's */
	double *sizes;      /* MPIWAIT_SIZES numbers of calls, under profile; else NULL */
};

/* Zeros: empty. It takes memory as it grows, which rows_free gives back; or it was given room for all its rows. */
struct record_rows {
	size_t count;
	bool has_room;
	struct record_row *row;
};

/* Makes it the row of that phase: ROW_PHASE_NONE, ROW_PHASE_OTHER, or from ROW_PHASE_FIRST on. */
void row_phase(struct record_row *row, int32_t level);

/* Adds the numbers; what the row is of stays, and sizes do. */
void row_add(enum rows_kind kind, struct record_row *sum, const struct record_row *more);

/* Sets one function's in a table on a node. */
void row_write(enum rows_kind kind, json_t *table, const struct record_row *row);

/* Adds one row, or a part of it; copies its sizes. Without memory it is left out. */
void rows_put(enum rows_kind kind, struct record_rows *sum, const struct record_row *more);

/* One node's, which gives its rows their most_node. */
void rows_add(enum rows_kind kind, struct record_rows *sum, const struct record_rows *from, uint32_t node);
void rows_free(struct record_rows *rows);

/* Sets it in a step's "wait" on a node, largest first and cut to what its reader takes. An empty one is left out. */
void rows_write(enum rows_kind kind, json_t *wait, const struct record_rows *rows);

/* Adds what a step's "wait" has, hostile input. Returns whether it is what a node writes. */
bool rows_read(enum rows_kind kind, const json_t *wait, struct record_rows *sum);

/* Sets it in the job's, largest first, so many of them and the rest as one. An empty one is left out but "by_call". */
void rows_print(enum rows_kind kind, json_t *wait, const struct record_rows *rows, const struct record_names *names,
                const struct record_detail *detail);
