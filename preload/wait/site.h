/*
 * Where waiting comes from: the waits of a rank by the place in the program that called MPI. On request.
 *
 * A place is the module that the call came from, program or library, and the address behind the call as the module's
 * file has it: addr2line finds the line, wherever the file was loaded. Calls that came through MPI's own layer for
 * another language (libmpi_mpifh and its like) are those of who called the layer, for which the stack is unwound.
 *
 * Invariant: only a call that has waited costs anything. Bounded: of more places than MPIWAIT_SITES the rest are one.
 */
#pragma once

#include <stdint.h>

/* At the start, once there is a slot. Unwinding loads a library at its first use: that is here. */
void site_start(void);

/* A wait in a call of that row is over, while the call itself is not; it was called from there. Keeps errno. */
void site_add(uint32_t row, uintptr_t caller, uint64_t wait_ns);
