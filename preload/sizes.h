/*
 * How many bytes a call hands over, under profile: count times size of the datatype.
 *
 * Looked up after the real call has succeeded, and only for arguments that are significant at this rank: an MPI aborts
 * when it is asked for the size of MPI_DATATYPE_NULL. Sizes are not remembered, because a datatype's handle may be
 * given to another one.
 */
#ifndef MPIWAIT_PRELOAD_SIZES_H
#define MPIWAIT_PRELOAD_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/calls.h"

/* Once, before the library acts. sizes: where classes of sizes are counted, NULL for nowhere. */
void sizes_prepare(struct mpiwait_sizes *sizes);

/* Counts an outermost call that has returned success; large: by its large-count name. */
void sizes_count(enum call_row row, bool large, const uintptr_t *arguments);

#endif
