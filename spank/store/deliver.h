/* Store: one job's merged record into the site's sink. */
#pragma once

#include "spank/base/error.h"
#include "spank/store/account.h"
#include "spank/store/spool.h"

/* Of which nodes a record is made though some are missing. Without a shared spool they always are. */
enum store_accept {
	STORE_COMPLETE, /* of none */
	STORE_ALONE,    /* the first, where no other has been seen: the spool may not be shared */
	STORE_ANY
};

#define STORE_LEFT 1 /* nodes are missing */

/*
 * Locks a job, waiting at most so long, reads what its nodes have left, merges and stores it, and removes what they
 * left. *account is opened by the first job that needs it, and the caller's to close; NULL: it is not open yet. Returns
 * 0 (also where another was faster, the site wants no record of such a job, or a better one is there), STORE_LEFT,
 * ACCOUNT_NOT_YET, -EBUSY (another has the lock), ACCOUNT_AWAY, -EPROTO (slurmdbd does not take this job's; *account is
 * closed) or another -errno. All but 0 with the reason.
 */
int store_job(struct spool *spool, struct account **account, const char *key, enum store_accept accept, unsigned wait_s,
              struct error *error);
