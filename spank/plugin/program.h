/*
 * Finds out if a library can be preloaded into the program that a task is about to become. Runs in the task, as the
 * user.
 */
#pragma once

#include <stdbool.h>

#include "preload/contract/notes.h"

/*
 * Reads the program's file. command is the task's first word, search the value of PATH, "" for none. Returns
 * MPIWAIT_NOTE_STATIC or MPIWAIT_NOTE_SETUID; MPIWAIT_NOTES if a library can be preloaded, or if that cannot be told,
 * as for a script.
 */
enum mpiwait_note program_look(const char *command, const char *search);

/* Returns true if the program's file is an ELF file that can be read from here: no script, and not missing. */
bool program_is_binary(const char *command, const char *search);
