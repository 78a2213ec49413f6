/*
 * Writer: moves records from the outbox to the spool, merges each job's, and stores them. It runs mpi-wait-node's
 * "drain"; sweep.h has what is left for "sweep".
 *
 * A record is removed from outbox and spool only after slurmdbd has committed it, or, with sink=file, after it lies in
 * <spool>/done. The writer holds no connection while it waits.
 */
#pragma once

#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/policy/site.h"
#include "spank/store/deliver.h"
#include "spank/store/turn.h"

struct writer_config {
	const struct site *site;
	const char *outbox;     /* path of the outbox; NULL: OUTBOX_DIRECTORY */
	unsigned first_delay_s; /* time from the job's end to the first try; up to half of it is added at random */
	unsigned collect_s;     /* how long the job's first node waits for the other nodes' records */
	bool at_once;           /* a sweep: ignore records' age, and sweep until nothing is left, for 20 s at most */
	bool partial;           /* store jobs with missing nodes too, whatever their age */
	bool only_moves;        /* a sweep: only move records from this node's outbox to the shared spool */
};

#define WRITER_DEFAULTS                             \
	{                                           \
		.first_delay_s = 8, .collect_s = 60 \
	}

#define WRITER_LEFT STORE_LEFT /* something was left for the next sweep */

/*
 * Moves and stores the records in this node's outbox, and those that come meanwhile. Does nothing if another process of
 * this node has the turn: either that one or this one sees every record that is in the outbox now. A holder with other
 * site arguments takes no further records, and is waited for. Calls that may hang (lookups of users, the outbox, the
 * spool, slurmdbd) are made only with the turn held: however many jobs end, only one process hangs. Returns 0,
 * WRITER_LEFT or -errno.
 */
int writer_drain(const struct writer_config *config, struct turn *turn, const char *node, struct error *error);
