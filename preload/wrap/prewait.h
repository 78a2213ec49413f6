/*
 * Loops before a call or in its place, for calls whose waits make no idle call. The library polls for what the call
 * waits for and naps between the polls.
 *
 *     Wait, Waitall, Waitany, Waitsome   Test, Testall, Testany, Testsome, which do the call's work
 *     Mprobe                             Improbe, likewise
 *     Recv, Mrecv                        Irecv, Imrecv, then Test with the caller's status, likewise
 *     Probe                              Iprobe, then the original call, which finds the message there
 *     Barrier, Allreduce, Allgather, Alltoall, Reduce_scatter_block   with ibarrier=1 only: Ibarrier, then the call
 *
 * Request_get_status would let the original Wait follow. But MPICH 4.0 and before call the poll functions of ROMIO's
 * requests (MPI_File_iwrite_all) in Test and Wait alone, so a loop over Request_get_status never ended.
 *
 * Invariant: a loop runs only if the runtime is known to spin in that call, or if the calls of that row have burned CPU
 * time for long and never waited otherwise. No status is read. An error of a poll is the call's: the error handler has
 * been called. A call whose work a loop does stays as it is if another tool stands behind us, so that the tool sees it.
 *
 * The Ibarrier adds messages, and every rank must send them. So it depends only on the option and on arguments of the
 * call that are the same on all ranks. The others wait forever for a rank without the library.
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
#define PREWAIT_RECEIVE(row) ((row) == ROW_Recv || (row) == ROW_Mrecv || (row) == ROW_Mprobe)

/* True if there is a loop for the row; a constant if the row is one. */
#define PREWAIT_CAN(row) (PREWAIT_BARRIER(row) || PREWAIT_REQUEST(row) || PREWAIT_RECEIVE(row) || (row) == ROW_Probe)

#define PREWAIT_NOT_DONE INT64_MIN

/*
 * Sets up the loops for the rows that are known to spin, and for those that the user chose. Called after Init, when the
 * hooks are known.
 */
void prewait_start(void);

/*
 * Runs the loop before the open call. Returns the MPI error code if the call's work is done; otherwise
 * PREWAIT_NOT_DONE, and the caller must make the call.
 */
int64_t prewait(enum call_row row, enum call_name name, const uintptr_t *arguments);
