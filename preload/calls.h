/*
 * The table mpi_calls.def as C: an index per row, and what the index means.
 *
 * Invariant: a row's index is its position in the table, and there is room for all of them in the stats segment.
 */
#ifndef MPIWAIT_PRELOAD_CALLS_H
#define MPIWAIT_PRELOAD_CALLS_H

#include "preload/stats.h"

enum call_kind { CALL_NONE, CALL_MARK, CALL_TIME, CALL_WAIT };
enum call_group { GROUP_INIT, GROUP_P2P, GROUP_COLLECTIVE, GROUP_RMA, GROUP_RMA_LOCK, GROUP_COMM, GROUP_IO };

enum call_row {
#define CALL(name, arguments, kind, large, group) ROW_##name,
#include "preload/mpi_calls.def"
#undef CALL
	CALL_ROWS
};

_Static_assert((int)CALL_ROWS <= (int)MPIWAIT_CALLS, "room for the rows in the stats segment");

/* The four names of one row, in the order in which next_table holds their successors. */
enum call_name { NAME_MPI, NAME_PMPI, NAME_MPI_LARGE, NAME_PMPI_LARGE, CALL_NAMES };

#endif
