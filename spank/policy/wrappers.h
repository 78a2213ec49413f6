/*
 * Wrappers: finds the program that a command line runs, through programs that run another one, such as env and numactl.
 * Pure.
 *
 * Only what is certain counts. The table in wrappers.c has, for each wrapper, the options that it may have; any other
 * option means that the program is not known.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "spank/policy/programs.h"

#define WRAPPERS_TEXT_MAX 1024 /* bytes of a shell's text, its NUL included */

/*
 * Returns the word that names the program which the command line runs, or NULL if that is not certain. The word is one
 * of words, or lies in `buffer`. The site's own wrappers are those of `programs`.
 */
const char *wrappers_program(int count, char *const words[], const struct programs *programs,
                             char buffer[WRAPPERS_TEXT_MAX]);

/*
 * Returns true if the command line seems to give its program CPUs by numactl, also in a shell's text. numactl fails
 * where a task was bound to other CPUs before.
 */
bool wrappers_bind(int count, char *const words[]);

/* Returns the part of a path behind its last slash. */
const char *wrappers_base_name(const char *path);
