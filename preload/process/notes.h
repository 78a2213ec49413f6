/* Notes to root, seen by the process that writes one: preload/contract/notes.h. */
#pragma once

#include "preload/contract/notes.h"
#include "preload/process/config.h"

/*
 * Counts the process under `note` on the step's page. Does nothing where the configuration names no page, and where the
 * page cannot be reached, as in an IPC namespace of the job's own. Keeps errno.
 */
void notes_add(const struct config *config, enum mpiwait_note note);
