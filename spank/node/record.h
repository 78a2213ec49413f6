/*
 * A node's record of a job: made of the node's state of it, and put into the outbox.
 * job_record.h makes the job's record out of one or many of them.
 *
 * Of its steps' files 16 MiB are read with their details, and 48 MiB in all; details fill at most half of the record,
 * which has 4096 steps at most. What is over that is counted.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/node/ending.h"
#include "spank/node/state.h"

/* Where the record of a node goes. */
struct record_place {
	const struct state_place *place;
	const char *outbox; /* NULL: OUTBOX_DIRECTORY */
};

/*
 * Makes the record of a job that has ended, out of the open directory of its state, and puts it into the outbox. May
 * hang with the outbox's disk. A job that left nothing to tell has none. Returns 0 or -errno with the reason.
 */
int node_record_put(const struct record_place *to, int directory, struct state_job *job, const struct ending *ending,
                    struct error *error);
