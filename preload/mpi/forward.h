/*
 * Calls that are forwarded to a tool behind us, and that the tool may bring back.
 *
 * Most PMPI tools call the PMPI name next. A tool that looks up the next function in another way may find ours again.
 * We would forward that call to the tool: an endless recursion. So the functions of such a tool are kept here and not
 * in next_table, and calls of them take the long way (wrap.h). So are the MARK calls of every tool: nothing else would
 * tell the call that the tool makes by its PMPI name from one that the program makes.
 *
 * Invariant: a call that comes back from the tool while this thread forwards it goes on to the function behind the
 * tool. So the tool sees each call once, and we count it once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/mpi/calls.h"

#define FORWARD_NONE UINTPTR_MAX       /* no forward_end is due */
#define FORWARD_BACK (UINTPTR_MAX - 1) /* the call has come back: it is counted already, and no forward_end is due */

/* The call that a thread is forwarding to such a tool. */
struct forward {
	size_t index;    /* index in next_table + 1; 0: the thread forwards no call */
	uintptr_t frame; /* stack address of the wrapper, or FORWARD_* */
};

/* Returns true if the function belongs to a tool: its object is no MPI library. Asks the loader. */
bool forward_is_tool(const void *found);

/*
 * Returns true if the function found for the name belongs to a tool that does not refer to the PMPI name. (The loader
 * would bind such a reference to our function.) Asks the loader.
 */
bool forward_may_return(const char *name, const void *found);

/*
 * Notes such a tool's function. A call that comes back goes on to the next object's function of the name, or else to
 * `profiled`, the function of the PMPI name, which may be NULL. Returns false and notes nothing if there is neither.
 * Asks the loader.
 */
bool forward_guard(size_t index, const char *name, void *found, void *profiled);

/* Returns the tool's function, NULL if none is noted. */
void *forward_tool(size_t index);

/*
 * Begins a call for which next_table has nothing. Returns the function to forward to. next: the function that next_find
 * found; frame: stack address of the wrapper; caller: return address of the wrapper. Before a tool's call, writes to
 * *ret_outer what the thread forwarded until then; the caller gives that to forward_end after the call. For a call that
 * comes back, writes FORWARD_BACK to ret_outer->frame. For any other function, writes nothing.
 */
void *forward_begin(size_t index, void *next, uintptr_t frame, uintptr_t caller, struct forward *ret_outer);
void forward_end(const struct forward *outer);
