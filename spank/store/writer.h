/*
 * Writer: brings records from the outbox to where they are seen, as mpi-wait-node's "drain" and "sweep".
 *
 * Nothing leaves outbox or spool before slurmdbd has committed it (or, with sink=file, before it lies in <spool>/done).
 * No connection is held while it waits for anything.
 */
#pragma once

#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/policy/site.h"
#include "spank/store/deliver.h"
#include "spank/store/turn.h"

struct writer_config {
	const struct site *site;
	const char *outbox;     /* NULL: OUTBOX_DIRECTORY */
	unsigned first_delay_s; /* from the job's end to the first try, jitter of half of it added */
	unsigned collect_s;     /* how long the first node waits for the others */
	bool at_once;           /* a sweep: no regard to age, and again until nothing is left or 20 s have passed */
	bool partial;           /* take jobs of which nodes are missing too, whatever their age */
	bool only_moves;        /* a sweep: no further than from this node's outbox to the shared spool */
};

#define WRITER_DEFAULTS                             \
	{                                           \
		.first_delay_s = 8, .collect_s = 60 \
	}

#define WRITER_LEFT STORE_LEFT /* something was left for the next sweep */

/*
 * Brings on every record in this node's outbox, and those that come meanwhile, each right after its job's end here.
 * Does nothing where another process of this node does that already: what is in the outbox when this is called, one of
 * them sees. One that does it by other site arguments takes no more, and is waited for. Whatever may hang (users'
 * names, the outbox, the spool, slurmdbd) is used after the turn is taken: however many jobs end, one process hangs.
 * Returns 0, WRITER_LEFT or -errno.
 */
int writer_drain(const struct writer_config *config, struct turn *turn, const char *node, struct error *error);

/* Everything that is old enough, with one connection, each job by itself. Returns 0, WRITER_LEFT or -errno. */
int writer_sweep(const struct writer_config *config, struct error *error);
