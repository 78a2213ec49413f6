/*
 * Loops before a call, for calls whose waits make no idle call: the library polls for what the call waits for, and
 * naps between the polls. Then the original call follows and finds it there.
 *
 *     Wait, Waitall, Waitany, Waitsome   Request_get_status
 *     Probe                              Iprobe
 *     Mprobe                             Improbe, which does the call's work: the message can be taken once
 *     Recv, Mrecv                        Irecv, Imrecv and Request_get_status, then MPI_Wait with the caller's status
 *     Barrier, Allreduce, Allgather, Alltoall, Reduce_scatter_block   with ibarrier=1 only: Ibarrier
 *
 * Invariant: only where the runtime is known to spin in that call, or the calls of that row have burned CPU for long
 * and never waited otherwise. Statuses are private memory that is never read, requests walk by the stride of the ABI.
 * Recv, Mrecv and Mprobe stay as they are where another tool stands behind us, so that it still sees them.
 *
 * The Ibarrier adds messages, and every rank must do it: whether it does depends on the option and on the call's
 * arguments that are the same on all ranks, and on nothing else. A rank without the library is waited for forever.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/mpi/calls.h"

#define PREWAIT_BARRIER(row)                                                                                  \
	((row) == ROW_Barrier || (row) == ROW_Allreduce || (row) == ROW_Allgather || (row) == ROW_Alltoall || \
	 (row) == ROW_Reduce_scatter_block)
#define PREWAIT_REQUEST(row) \
	((row) == ROW_Wait || (row) == ROW_Waitall || (row) == ROW_Waitany || (row) == ROW_Waitsome)
#define PREWAIT_REPLACE(row) ((row) == ROW_Recv || (row) == ROW_Mrecv || (row) == ROW_Mprobe)

/* Whether there is a loop for that row: a constant where the row is one. */
#define PREWAIT_CAN(row) (PREWAIT_BARRIER(row) || PREWAIT_REQUEST(row) || PREWAIT_REPLACE(row) || (row) == ROW_Probe)

#define PREWAIT_NOT_DONE INT64_MIN

/* After Init, once the hooks are known: for the rows of which it is known that they spin, or that the user chose. */
void prewait_start(void);

/*
 * The loop before the open call of that row and name, which has these arguments. Returns the MPI error code where the
 * call's work is done; otherwise PREWAIT_NOT_DONE, and the caller goes on to make the call.
 */
int64_t prewait(enum call_row row, enum call_name name, const uintptr_t *arguments);
