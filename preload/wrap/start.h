/*
 * Start and end of the library's work in a process.
 *
 * Invariant: the library acts from the first successful MPI_Init, MPI_Init_thread or MPI_Session_init until
 * MPI_Finalize, in the process that called it and in no child of it. Before, after and elsewhere it only forwards.
 */
#pragma once

#include "preload/mpi/calls.h"

/* Prepares the environment for the first call that starts MPI. Called before a call of GROUP_INIT. */
void start_call_begins(enum call_row row);

/*
 * Starts or ends the library's work. Called after a call of GROUP_INIT has returned that MPI error code (0: success).
 */
void start_call_ended(enum call_row row, int code);
