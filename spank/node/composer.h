/*
 * A node's record of a job: makes it from the node's state of the job, and puts it into the outbox. record/merge.h
 * merges the records of a job's nodes.
 *
 * Bounds: of a job's step files 16 MiB are read with their details, and 48 MiB in all. Details fill at most half of the
 * record, which has at most 4096 steps. Steps beyond the bounds are counted.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/node/ending.h"
#include "spank/node/state.h"

/* The node of a record, and the outbox that the record goes to. */
struct composer_target {
	const struct run_directory *run_directory;
	const char *outbox; /* NULL: OUTBOX_DIRECTORY */
};

/*
 * Makes the record of a job that has ended, from its state in `directory`, and puts it into the outbox. May hang with
 * the outbox's disk. Makes none if the job had no policy and no steps. Returns 0, or -errno with the reason.
 */
int composer_put(const struct composer_target *to, int directory, struct state_job *job, const struct ending *ending,
                 struct error *error);
