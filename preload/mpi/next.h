/*
 * Finds what the wrappers stand in front of: the next symbol of their own name, wherever the MPI was loaded.
 *
 * Invariant: what has been found stays valid (a reference on the MPI library is kept), and what an MPI does not have
 * is a function that returns an MPI error code, never NULL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/mpi/calls.h"

/* The successors, by row * CALL_NAMES + enum call_name; NULL until looked for, and where forward.h has a tool's. */
extern void *next_table[CALL_ROWS * CALL_NAMES];

/*
 * Looks for all of them. Called by the constructor where an MPI is linked, else by the first wrapper that is used.
 * Asks the loader, so it may allocate and lock; harmless when repeated or run by two threads.
 */
void next_resolve(void);

/* The slow way of next_get; finds a tool's function too. */
void *next_find(size_t index);

/* The successor with that index, NULL: not looked for yet, or a tool's. */
static inline void *next_look(size_t index)
{
	return __atomic_load_n(&next_table[index], __ATOMIC_RELAXED);
}

/* The successor with that index. */
static inline void *next_get(size_t index)
{
	void *next = next_look(index);

	return __builtin_expect(next != NULL, 1) ? next : next_find(index);
}

/* The function's name without "MPI_". */
const char *next_call_name(enum call_row row);

/* Any other symbol behind us (RTLD_NEXT, then the MPI library's own scope). NULL: there is none. */
void *next_symbol(const char *name);

/* The same in the first library that is loaded and whose file name begins so. NULL: there is none. */
void *next_symbol_in(const char *prefix, const char *name);

/*
 * The same of that version (any, where the loader knows no versions). What the caller finds in its own scope comes
 * second: an MPI library may have loaded the other so that nobody else sees it. NULL: there is none.
 */
void *next_versioned(const char *name, const char *version, const void *caller);

/* Returns true if that function's object defines the name, in any version. Asks the loader. */
bool next_defines(const void *function, const char *name);

/* Returns true if both addresses are in the same object. Asks the loader. */
bool next_is_alike(const void *one, const void *other);

/* Writes where the code of that function's object is; nothing for a function that is in none. Asks the loader. */
void next_text(const void *function, uintptr_t *ret_start, uintptr_t *ret_size);

/* Returns true if that function's object refers to that name without defining it. Asks the loader. */
bool next_refers(const void *function, const char *name);

/*
 * The address of a variable of the MPI's. Not RTLD_NEXT: a program that was linked with copy relocations has the only
 * valid one in itself, which stands before us. NULL: there is none.
 */
void *next_variable(const char *name);

/*
 * Returns true if an MPI library is loaded that the process has initialised, whether or not by way of us. Asks that
 * library itself, which may be asked at any time.
 */
bool next_is_initialized(void);

/* Which ABI the MPI has: decides what MPI_COMM_WORLD is. Valid once resolved. */
enum mpiwait_family next_family(void);

/* More than one MPI is loaded: it cannot be known which one a caller meant. Valid once resolved. */
bool next_is_ambiguous(void);
