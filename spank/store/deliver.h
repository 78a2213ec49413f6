/* Merges the records of a job's nodes and stores the result in the site's sink. */
#pragma once

#include "spank/base/error.h"
#include "spank/store/dbd.h"
#include "spank/store/spool.h"

/* The jobs that are stored although nodes are missing. Without a shared spool, every job is stored. */
enum store_accept {
	STORE_COMPLETE, /* none */
	STORE_ALONE,    /* one that has only its first node's record: the spool may not be shared */
	STORE_ANY       /* all */
};

#define STORE_LEFT 1 /* nodes are missing */

/*
 * Locks a job, waiting wait_s seconds at most, merges its nodes' records, stores the result, and removes the records.
 * The first job that needs slurmdbd opens *dbd, which is NULL before; the caller closes it.
 *
 * Returns 0: the job is stored, by this process or another, or a better record is there, or the site wants no record of
 * such a job. Returns, with the reason in error: STORE_LEFT, DBD_NOT_YET, -EBUSY (another process has the lock),
 * DBD_AWAY, -EPROTO (slurmdbd does not take this record; *dbd is closed and NULL), or another -errno.
 */
int store_job(struct spool *spool, struct dbd **dbd, const char *key, enum store_accept accept, unsigned wait_s,
              struct error *error);

/*
 * Opens the directory of kept records, as the calling user. A missing one is made with `mode`, unless mode is 0.
 * Returns a descriptor or -errno.
 */
int store_done_open(const struct spool *spool, mode_t mode);
