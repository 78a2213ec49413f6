/*
 * Calls that are forwarded to a tool behind us, and that the tool may bring back.
 *
 * A PMPI tool goes on to the PMPI name. One that looks for the next function in another way may find ours again, and we
 * would forward the call to the tool: an endless recursion. So such a tool's functions stand here and not in
 * next_table, and calls of them take the long way (wrap.h).
 *
 * Invariant: a call that comes back from the tool while this thread forwards it goes on to what stands behind the tool.
 * So the tool sees each call once, and we count it once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/mpi/calls.h"

#define FORWARD_NONE UINTPTR_MAX       /* no forward_end is due */
#define FORWARD_BACK (UINTPTR_MAX - 1) /* neither: the call has come back, and is counted already */

/* The call that a thread is forwarding to such a tool. */
struct forward {
	size_t index;    /* in next_table, + 1; 0: nothing */
	uintptr_t frame; /* stack address of the wrapper, or FORWARD_* */
};

/*
 * Returns true if the function that was found for that name is a tool's that does not refer to the PMPI name, which the
 * loader would bind to ours. Asks the loader.
 */
bool forward_may_return(const char *name, const void *found);

/*
 * Notes such a function. What comes back goes on to the next object's function of that name; if there is none, to
 * `profiled`, the PMPI name's, which may be NULL. Returns false if there is neither: then nothing is noted. Asks the
 * loader.
 */
bool forward_guard(size_t index, const char *name, void *found, void *profiled);

/* Returns the tool's function, NULL where none is noted. */
void *forward_tool(size_t index);

/*
 * Begins a call that next_table has nothing for, of the function that was found. frame: stack address of the wrapper;
 * caller: where it was called from. Returns the function to forward to. A tool's call ends by forward_end, which takes
 * what the thread has forwarded before, from *ret_outer. One that comes back writes FORWARD_BACK there, and calls of
 * other functions nothing.
 */
void *forward_begin(size_t index, void *next, uintptr_t frame, uintptr_t caller, struct forward *ret_outer);
void forward_end(const struct forward *outer);
