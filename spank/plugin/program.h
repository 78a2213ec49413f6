/*
 * The program that a task is about to become, as far as it tells whether a library can be preloaded into it. It runs in
 * the task, as the user.
 */
#pragma once

#include "preload/contract/notes.h"

/*
 * Looks at the program. command is the task's first word, search the value of PATH, "" for none. Returns
 * MPIWAIT_NOTE_STATIC or MPIWAIT_NOTE_SETUID; MPIWAIT_NOTES where a library can be preloaded, or that is not known, as
 * of a script.
 */
enum mpiwait_note program_look(const char *command, const char *search);
