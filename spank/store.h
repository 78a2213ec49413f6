/* Store: one job's merged record into the site's sink. */
#ifndef MPIWAIT_SPANK_STORE_H
#define MPIWAIT_SPANK_STORE_H

#include "spank/account.h"
#include "spank/error.h"
#include "spank/site.h"
#include "spank/spool.h"

#define STORE_BATCH 32

/* Jobs whose records are stored but not yet committed; all zero is an empty one. */
struct store {
	const struct site *site;
	struct spool *spool;
	struct account *account;
	size_t count;
	struct collection *pending[STORE_BATCH];
};

/*
 * Merges what was collected (count >= 1, locked) and stores it; why says what became of missing nodes. Takes the
 * collection over if it returns 0: then it is removed by the next store_commit, which comes by itself when the batch is
 * full. Also 0 where the site wants no record of such a job, or a better one is there. Else ACCOUNT_NOT_YET or -errno,
 * and the collection is still the caller's.
 */
int store_add(struct store *store, struct collection *collection, const char *why, struct error *error);

/* Commits, then removes what was stored. Returns 0 or -EIO (nothing was removed). */
int store_commit(struct store *store, struct error *error);

/* Forgets what was not committed, and closes the connection. */
void store_close(struct store *store);

#endif
