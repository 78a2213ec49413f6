/*
 * The rows of mpi_calls.def: an index for each row, and the kind of work that the library does in its calls.
 *
 * Invariant: a row's index is its position in the table, and the stats segment has room for all rows.
 */
#pragma once

#include "preload/contract/stats.h"

enum call_kind { CALL_NONE, CALL_MARK, CALL_TIME, CALL_WAIT };

enum call_row {
#define CALL(name, ...) ROW_##name,
#include "preload/contract/mpi_calls.def"
#undef CALL
	CALL_ROWS
};

_Static_assert((int)CALL_ROWS <= (int)MPIWAIT_CALLS, "room for the rows in the stats segment");
