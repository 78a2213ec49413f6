/*
 * Sleeps before a collective, where its waits make no idle call: the rank sleeps until shortly before the end of the
 * call is forecast, and forwards the call then. Any MPI serves for that.
 *
 *     entry ...                                      return
 *     |------------ nap ------------|---- the call ----|
 *                                landing
 *
 * Only the collectives in which every rank's result needs every rank, on a communicator of one group and more than one
 * rank: none of them can end before the last rank has come, so nobody waits for one that sleeps until then. In
 * Alltoallv and Alltoallw with counts of zero a rank may be waited for all the same; the account measures that.
 *
 * The same plan as in other waits (budget/plan.h): ends are learned in looks, in which nobody sleeps, as times from the
 * entry to the return. Nothing polls before a call: a call of which nothing is known is forwarded at once, and no poll
 * shows that nothing came in a nap. So a call counts as late that takes no longer than half as long again as the
 * shortest one did (forecast_is_late). Calls that do nothing but move data are late each time, and so are soon not
 * slept before.
 *
 * Invariant: the call is forwarded as it came. Of a row that has made an idle call nothing is done any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/mpi/calls.h"
#include "preload/wait/wait.h"

/* Whether that row's calls may be slept before: a constant where the row is one. */
#define PRESLEEP_CAN(row)                                                                                            \
	((row) == ROW_Barrier || (row) == ROW_Allreduce || (row) == ROW_Allgather || (row) == ROW_Allgatherv ||      \
	 (row) == ROW_Alltoall || (row) == ROW_Alltoallv || (row) == ROW_Alltoallw || (row) == ROW_Reduce_scatter || \
	 (row) == ROW_Reduce_scatter_block)

/* After Init and prewait_start: offers that for the rows that have no loop, if anything is forecast. */
void presleep_start(void);

/*
 * Before the open call, which has these arguments, is forwarded; large: by its large-count name. May sleep. Keeps
 * errno.
 */
void presleep_begin(bool large, const uintptr_t *arguments);

/* After it, where wait->presleep is set. The call returned at now_ns. */
void presleep_end(struct wait *wait, uint64_t now_ns);
