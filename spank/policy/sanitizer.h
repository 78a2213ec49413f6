/*
 * ASAN_OPTIONS: tells AddressSanitizer to accept a library that stands before its own. Pure.
 *
 * Its shared runtime ends each program in which another library comes first, with status 1 and before main, unless
 * ASAN_OPTIONS or the program's own __asan_default_options says verify_asan_link_order=0. preload/wrap/sanitizer.c
 * gives the same answer as the default of every program; ASAN_OPTIONS reaches those that have defaults of their own.
 * Runtimes before gcc 9 and LLVM 7 do not know the option.
 *
 * Invariant: the user's own value of the option stays, and so does all else in ASAN_OPTIONS.
 */
#pragma once

#include <stdbool.h>

#define SANITIZER_VARIABLE "ASAN_OPTIONS"

/* In the task's environment, set: the option in SANITIZER_VARIABLE is ours. */
#define SANITIZER_MARK "MPI_WAIT_ASAN"

/* Returns true if the user has said in options how the order is to be checked. */
bool sanitizer_is_told(const char *options);

/* Returns options with ours appended, the caller's to free; NULL without memory. */
char *sanitizer_add(const char *options);

/* Takes ours out of options, wherever it stands by now; the rest keeps its order. Returns true if it was there. */
bool sanitizer_remove(char *options);
