/*
 * Finds the functions that the wrappers stand in front of: the next symbol of the same name, wherever the MPI was
 * loaded. "Behind us" are the objects, programs and shared libraries, that the loader searches after this library.
 *
 * "Asks the loader" warns of a function that may take the loader's lock, and may allocate.
 *
 * Invariant: a function that was found stays valid, because a reference on the MPI library is kept. A function that an
 * MPI lacks is one that returns an MPI error code, never NULL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/mpi/calls.h"

/*
 * The next functions, by row * CALL_NAMES + enum call_name. NULL until next_resolve, and if forward.h has a tool's
 * function instead.
 */
extern void *next_table[CALL_ROWS * CALL_NAMES];

/*
 * Looks up all next functions. Called by the constructor if an MPI is linked, else by the first wrapper that is used.
 * Asks the loader, so it may allocate and lock; harmless when repeated or run by two threads.
 */
void next_resolve(void);

/* Returns the next function, a tool's too, and looks all of them up if necessary. Never NULL. */
void *next_find(size_t index);

/* Returns the next function if it is in next_table; NULL if it was not looked up yet or is a tool's. */
static inline void *next_known(size_t index)
{
	return __atomic_load_n(&next_table[index], __ATOMIC_RELAXED);
}

/* Returns the next function, which is looked up if necessary. */
static inline void *next_get(size_t index)
{
	void *next = next_known(index);

	return __builtin_expect(next != NULL, 1) ? next : next_find(index);
}

/* Returns the function's name without "MPI_". */
const char *next_call_name(enum call_row row);

/* Returns a symbol behind us (RTLD_NEXT), or else in the MPI library's own scope; NULL if there is none. */
void *next_symbol(const char *name);

/* Returns a symbol of the first loaded library whose file name begins with prefix, NULL if there is none. */
void *next_symbol_in(const char *prefix, const char *name);

/*
 * Returns a symbol of that version, NULL if there is none: behind us, or else in the scope of the object that holds the
 * address `caller`. An MPI library may have loaded the symbol's library with RTLD_LOCAL, so that only the MPI sees it.
 * Any version counts without one, and where the loader has no dlvsym. A symbol of our own object does not count.
 */
void *next_versioned(const char *name, const char *version, const void *caller);

/*
 * Returns a symbol behind us, or else in the scope of the caller's object, the MPI library's, or that of the first
 * loaded library whose file name begins with prefix; NULL if there is none. A process may have several copies of a
 * library, and each caller its own.
 */
void *next_symbol_for(const char *name, const void *caller, const char *prefix);

/* Returns true if the address lies in a library or component of Open MPI. Asks the loader. */
bool next_is_of_openmpi(const void *address);

/* Returns true if the function's object defines the name, in any version. Asks the loader. */
bool next_defines(const void *function, const char *name);

/* Returns true if both addresses lie in the same object; false also if one lies in none. Asks the loader. */
bool next_in_same_object(const void *one, const void *other);

/*
 * Writes where the code of the function's object is; writes nothing for a function that is in no object. Asks the
 * loader.
 */
void next_text(const void *function, uintptr_t *ret_start, uintptr_t *ret_size);

/* Returns true if the function's object refers to the name without defining it. Asks the loader. */
bool next_refers(const void *function, const char *name);

/*
 * Returns the address of a variable of the MPI's, NULL if there is none. Does not use RTLD_NEXT: a program that was
 * linked with copy relocations has the only valid variable in itself, before us.
 */
void *next_variable(const char *name);

/*
 * Returns true if an MPI library is loaded that the process has initialised, through our wrappers or not. Asks that
 * library itself, which allows the question at any time.
 */
bool next_is_initialized(void);

/* Returns the MPI's ABI, which decides what MPI_COMM_WORLD is. Valid after next_resolve. */
enum mpiwait_family next_family(void);

/*
 * Returns true if more than one MPI is loaded, so that nobody knows which one a caller means. Valid after next_resolve.
 */
bool next_is_ambiguous(void);
