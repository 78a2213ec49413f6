/* Store: one job's merged record into the site's sink. */
#ifndef MPIWAIT_SPANK_STORE_H
#define MPIWAIT_SPANK_STORE_H

#include "spank/account.h"
#include "spank/collection.h"
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

/* Of which nodes a record is made though some are missing. Without a shared spool they always are. */
enum store_accept {
	STORE_COMPLETE, /* of none */
	STORE_ALONE,    /* the first, where no other has been seen: the spool may not be shared */
	STORE_ANY
};

#define STORE_LEFT 1 /* nodes are missing */

/*
 * Locks a job, waiting at most so long, reads what its nodes have left, merges and stores it. It is removed by the next
 * store_commit, which comes by itself when the batch is full; until then no more of it is kept than the names. Returns
 * 0 (also where another was faster, the site wants no record of such a job, or a better one is there), STORE_LEFT,
 * ACCOUNT_NOT_YET, -EBUSY (another has the lock) or -errno.
 */
int store_job(struct store *store, const char *key, enum store_accept accept, unsigned wait_s, struct error *error);

/* Commits, then removes what was stored. Returns 0 or -EIO (nothing was removed). */
int store_commit(struct store *store, struct error *error);

/* Forgets what was not committed, and closes the connection. */
void store_close(struct store *store);

#endif
