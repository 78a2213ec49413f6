/*
 * Sets an option in ASAN_OPTIONS: AddressSanitizer shall accept a library that comes before its own. Pure.
 *
 * AddressSanitizer's shared runtime ends a program in which another library comes first, with status 1 and before main,
 * unless ASAN_OPTIONS or the program's own __asan_default_options says verify_asan_link_order=0.
 * preload/wrap/sanitizer.c provides that default for programs that have none; ASAN_OPTIONS reaches the others. Runtimes
 * before gcc 9 and LLVM 7 do not know the option.
 *
 * Invariant: a value of the option that the user has set stays, and so do all other options.
 */
#pragma once

#include <stdbool.h>

#define SANITIZER_VARIABLE "ASAN_OPTIONS"

/* Set in the task's environment if this plugin has added the option to SANITIZER_VARIABLE. */
#define SANITIZER_MARK "MPI_WAIT_ASAN"

/* Returns true if options has verify_asan_link_order, with any value. */
bool sanitizer_is_told(const char *options);

/* Returns a copy of options with the option appended, which the caller frees; NULL without memory. */
char *sanitizer_add(const char *options);

/* Removes verify_asan_link_order=0 from options; the rest keeps its order. Returns true if it was there. */
bool sanitizer_remove(char *options);
