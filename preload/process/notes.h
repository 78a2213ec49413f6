/* Notes to root, from the process that writes them: preload/contract/notes.h. */
#pragma once

#include "preload/contract/notes.h"
#include "preload/process/config.h"

/*
 * Counts the process under `note` on the step's page. Does nothing if the configuration names no page, or if the page
 * cannot be reached, as from a job's own IPC namespace. Keeps errno.
 */
void notes_add(const struct config *config, enum mpiwait_note note);

/* Counts the process as a rank whose program has "off" for its policy, likewise. config->program must not be 0. */
void notes_add_off(const struct config *config);
