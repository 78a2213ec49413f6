/*
 * Recorder: makes the records of the jobs that have ended on a node, one process at a time (store/turn.h).
 */
#pragma once

#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/node/state.h"
#include "spank/store/turn.h"

/* Returns true if the record of a node is of any use for a job of these nodes. */
typedef bool (*record_wanted)(const char *nodes, const char *node);

/*
 * Makes the records of all jobs that have ended on the node (ending.h), also of those that end meanwhile, puts each
 * into the outbox (NULL: OUTBOX_DIRECTORY) and removes the job's state. May hang with the outbox's disk. Where a record
 * cannot be put there the state stays. wanted (NULL: all are) says which of them are put. Returns 0, -EBUSY: another
 * process does that, or -errno with the first reason.
 */
int recorder_make(const struct state_place *place, const char *outbox, record_wanted wanted, struct turn *turn,
                  struct error *error);

/* The same for every node with notes under root, as a timer does it: what failed is logged. */
void recorder_make_all(const char *root, const char *outbox, record_wanted wanted);
