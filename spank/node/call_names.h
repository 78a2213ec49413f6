/* The rows of preload/mpi/mpi_calls.def, seen by root: their names, and which of them wait. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "preload/mpi/calls.h"

/* "MPI_Recv"; "other" for a row that this release does not know. */
const char *call_name(size_t row);

/* Whether a call of that row can wait. */
bool call_may_wait(size_t row);
