/*
 * Large-count calls on an MPI that has none: MPI_X_c becomes MPI_X where its counts fit.
 *
 * The library exports MPI_X_c whatever the MPI has, and a program that asks at run time whether the function is there
 * (mpi4py's wheel does) takes ours for the MPI's. So it has to work: counts and displacements that an int holds are
 * narrowed, any other raises MPI_ERR_COUNT in the communicator's, window's or file's error handler.
 */
#ifndef MPIWAIT_PRELOAD_LARGE_H
#define MPIWAIT_PRELOAD_LARGE_H

#include <stddef.h>
#include <stdint.h>

/* Stands in next_table for a large-count function that the MPI lacks while it has the plain one. Never called. */
int large_stand_in(void);

/*
 * Calls the plain function instead of the one with that index in next_table, with those arguments. Allocates where
 * arrays have to be narrowed and are long, or have to outlive the call; see keep.h. Returns an MPI error code.
 */
int large_call(size_t index, const uintptr_t *arguments);

#endif
