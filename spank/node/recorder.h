/*
 * Recorder: makes the records of the jobs that have ended on a node, one process at a time (store/turn.h).
 */
#pragma once

#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/node/state.h"
#include "spank/store/turn.h"

/* Returns true if a job with the node list `nodes` can use the record of `node`. */
typedef bool (*record_wanted)(const char *nodes, const char *node);

/*
 * Makes the records of all jobs that have ended on the node (ending.h), also of those that end meanwhile. Puts each
 * into the outbox (NULL: OUTBOX_DIRECTORY) and removes the job's state; if a record cannot be put there, the state
 * stays. Ends at the first record that a full, read-only or broken outbox refuses. May hang with the outbox's disk.
 * wanted: selects the records to put; NULL: all. Returns 0, -EBUSY if another process is at it, or -errno with the
 * first reason.
 */
int recorder_make(const struct run_directory *run_directory, const char *outbox, record_wanted wanted,
                  struct turn *turn, struct error *error);

/* Calls recorder_make for every node with notes under `root`, as a timer does. Logs failures. */
void recorder_make_all(const char *root, const char *outbox, record_wanted wanted);
