/*
 * Round: jobs that one process stores one after another, by one connection to slurmdbd, and records that it moves to
 * the spool. Notices when slurmdbd, or the spool, takes nothing, and bounds the lines in the log.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "spank/base/error.h"
#include "spank/store/deliver.h"
#include "spank/store/spool.h"

struct round {
	struct spool spool;
	struct dbd *dbd;  /* the connection; NULL: none yet */
	int slot;         /* the permit to connect; -1: none */
	bool is_broken;   /* slurmdbd takes nothing in this round */
	unsigned in_row;  /* jobs that slurmdbd refused since it last took one */
	unsigned unmoved; /* records that the spool refused since it last took one */
	size_t left;      /* records that are left for the sweep */
	struct error why; /* why the first of those is left */
	size_t lines;     /* log lines so far */
};

/* Opens outbox and spool (spool_open). Returns 0 or -errno. */
int round_open(struct round *ret_round, const struct site *site, const char *outbox, struct error *error);

/* Tells what was left (round_tell), and closes outbox and spool. */
void round_close(struct round *round);

/* Stores a job, for which it takes a permit to connect first. Notes if slurmdbd takes nothing. Returns as store_job. */
int round_store(struct round *round, const char *key, enum store_accept accept, struct error *error);

/* Counts whether slurmdbd took a job. Returns false if it takes none: it is away, or refuses many in a row. */
bool round_takes(struct round *round, int result);

/* Ends a round of jobs: closes the connection to slurmdbd and gives its permit back. */
void round_end(struct round *round);

/*
 * Moves a record to the shared spool, unless the spool has refused many in a row. Returns 0 or -errno; error has a
 * message if the move was tried.
 */
int round_move(struct round *round, const char *key, const char *node, char ret_key[OUTBOX_KEY_MAX],
               struct error *error);

/* Logs why one job is left, a bounded number of lines in all; round_tell then logs how many are missing. */
void round_line(struct round *round, const char *text);

/* Counts a record that is left for the sweep, and takes over the first one's reason. */
void round_leave(struct round *round, struct error *reason);

/* Logs how many records were left for the sweep, and how many lines about them were left out. */
void round_tell(struct round *round);
