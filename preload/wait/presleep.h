/*
 * Sleeps before a collective whose waits make no idle call: the rank sleeps until shortly before the forecast end of
 * the call, and forwards the call then. This works with any MPI.
 *
 *     entry ...                                      return
 *     |------------ nap ------------|---- the call ----|
 *                                landing
 *
 * Only collectives in which every rank's result needs every rank are slept before, on a communicator of one group and
 * more than one rank. None of these can end before the last rank has come, so nobody waits for a rank that sleeps until
 * then. In Alltoallv and Alltoallw with counts of zero a rank may be waited for all the same; the account measures
 * that.
 *
 * The plan is the same as in other waits (budget/plan.h). The rank learns ends in looks, in which nobody sleeps, as
 * times from the entry to the return. Nothing polls before a call. So a call of which nothing is known is forwarded at
 * once, and no poll shows that nothing came in a nap. A call therefore counts as late if it takes at most half as long
 * again as the shortest one did (forecast_is_late). Calls that do nothing but move data are late each time, so the rank
 * soon stops sleeping before them.
 *
 * Invariant: the call is forwarded as it came. Once a row has made an idle call, the library does nothing more before
 * its calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/mpi/calls.h"
#include "preload/wait/wait.h"

/* True if that row's calls may be slept before. A constant if the row is one. */
#define PRESLEEP_CAN(row)                                                                                            \
	((row) == ROW_Barrier || (row) == ROW_Allreduce || (row) == ROW_Allgather || (row) == ROW_Allgatherv ||      \
	 (row) == ROW_Alltoall || (row) == ROW_Alltoallv || (row) == ROW_Alltoallw || (row) == ROW_Reduce_scatter || \
	 (row) == ROW_Reduce_scatter_block)

/*
 * Offers sleeps before calls for the rows that have no loop, if anything is forecast. Called after Init and
 * prewait_start.
 */
void presleep_start(void);

/*
 * Called before the open call, which has these arguments, is forwarded. large: the call came by its large-count name.
 * May sleep. Keeps errno.
 */
void presleep_begin(bool large, const uintptr_t *arguments);

/* Called after the open call if wait->presleep is set. The call returned at now_ns. */
void presleep_end(struct wait *wait, uint64_t now_ns);
