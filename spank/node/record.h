/*
 * A node's records of jobs: made of the node's state of each, and put into the outbox.
 * job_record.h makes the job's record out of one or many of them.
 *
 * Of its steps' files 16 MiB are read with their details, and 48 MiB in all; details fill at most half of the record,
 * which has 4096 steps at most. What is over that is counted.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/node/state.h"
#include "spank/store/turn.h"

/* Returns whether the record of a node is of any use for a job of these nodes. */
typedef bool (*record_wanted)(const char *nodes, const char *node);

/*
 * Makes the records of all jobs that have ended on the node (ending.h), also of those that end meanwhile, puts each
 * into the outbox (NULL: OUTBOX_DIRECTORY) and removes the job's state. May hang with the outbox's disk. Where a record
 * cannot be put there the state stays. wanted (NULL: all are) says which of them are put. Returns 0, -EBUSY: another
 * process does that, or -errno with the first reason.
 */
int node_records_make(const struct state_place *place, const char *outbox, record_wanted wanted, struct turn *turn,
                      struct error *error);

/* The same for every node with notes under root, as a timer does it: what failed is logged. */
void node_records_make_all(const char *root, const char *outbox, record_wanted wanted);

/* The record of a job as its state is now, a new reference; NULL with the reason, "" without memory. */
json_t *node_record_show(const struct state_place *place, uint32_t job_id, struct error *error);
