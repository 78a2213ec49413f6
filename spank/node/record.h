/*
 * The end of a job on a node: its record, made of the node's state and one last energy sample, goes to the outbox.
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

struct node_record_end {
	struct state_place place;
	uint32_t job_id;
	const char *outbox; /* NULL: OUTBOX_DIRECTORY */
	const char *helper; /* path of mpi-wait-node; NULL: no writer is started (the sweep will find the record) */
	int argument_count; /* the site's arguments, handed on to the writer */
	char *const *arguments;
};

/*
 * The job ended on this node: last energy sample, record to the outbox, state removed, writer started. A job without
 * state costs one failed open. Where the outbox cannot be written the state stays. Returns 0 or -errno with the reason,
 * to be logged; the epilog succeeds in any case. Takes the time of a few small local files.
 */
int node_record_finish(const struct node_record_end *end, struct error *error);

/*
 * What epilogs could not put into the outbox (no memory, a full disk) stays in the node's notes under root, and is put
 * there now: with the times of then, and without energy, because the counters have gone on.
 */
void node_record_finish_left(const char *root, const char *outbox);

/* The record of a job as its state is now, a new reference; NULL with the reason, "" without memory. */
json_t *node_record_show(const struct state_place *place, uint32_t job_id, struct error *error);
