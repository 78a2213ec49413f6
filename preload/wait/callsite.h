/*
 * Counts the waits of a rank by callsite, the place in the program that called MPI. On request only.
 *
 * A callsite is the module that the call came from, program or library, and the address behind the call as the module's
 * file has it. From that, addr2line finds the line, wherever the file was loaded. A call through MPI's own layer for
 * another language (libmpi_mpifh and its like) counts for the caller of the layer, which is found by unwinding the
 * stack.
 *
 * Invariant: only a call that has waited costs anything. The table is bounded: beyond MPIWAIT_SITES callsites the rest
 * share one entry.
 */
#pragma once

#include <stdint.h>

/* Starts the count. Called once there is a slot. Unwinds once here, because the first use loads a library. */
void callsite_start(void);

/* Counts a wait in a call of that row, which came from the address caller and is still open. Keeps errno. */
void callsite_add(uint32_t row, uintptr_t caller, uint64_t wait_ns);
