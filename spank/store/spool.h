/*
 * Spool: where the records of a job's nodes meet, <spool>/<key>/<node>.json; without a shared spool, the outbox itself.
 *
 * The directory is trusted only if nobody but root or spool_user can have written there; every file in it is hostile
 * input all the same, see job_files.h.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "spank/base/error.h"
#include "spank/policy/site.h"
#include "spank/store/listing.h"
#include "spank/store/outbox.h"

#define SPOOL_SLOTS 8

struct spool {
	const struct site *site;
	const char *outbox_path;
	int outbox;
	int shared;             /* -1: no spool= configured */
	uid_t user;             /* whom the shared spool is written as */
	struct listing listing; /* of the outbox */
};

/*
 * Opens the outbox (outbox NULL: OUTBOX_DIRECTORY) and the site's spool; both are the caller's. The spool must exist,
 * be a directory and no link, belong to root or spool_user and be writable by nobody else. Returns 0, -EPERM or -errno
 * with the path, what is wrong with it and what to do.
 */
int spool_open(const struct site *site, const char *outbox, struct spool *ret_spool, struct error *error);
void spool_close(struct spool *spool);

/*
 * Moves one node's record from the outbox to the shared spool: there it is durable before it leaves here. 0 also where
 * somebody else has moved it. It goes to those of its job that are of the same run, or, beside those of other runs, to
 * a key of its own: ret_key (may be NULL) is the one that it has there. A record that is longer than its part of what a
 * job may take there loses details, and says so.
 */
int spool_move(struct spool *spool, const char *key, const char *node, char ret_key[OUTBOX_KEY_MAX],
               struct error *error);

/* Reads the outbox's names anew; without it they are as they were at the first use. Returns 0 or -errno. */
int spool_list(struct spool *spool);

/*
 * Calls visit for every job of which there is something in one of the two directories: with its key, and, in the
 * outbox, whose listing is gone through, the name of the node. Stops where visit returns other than 0, and returns
 * that, or -errno.
 */
typedef int (*spool_visit)(void *context, const char *key, const char *node);
int spool_each(struct spool *spool, int directory, spool_visit visit, void *context);

/* Takes the lock that is a file there, made where it is missing. Returns a descriptor, -EBUSY or another -errno. */
int spool_lock(const struct spool *spool, int directory, const char *name);

/*
 * A permit to connect to slurmdbd, of which all hosts of a spool together have SPOOL_SLOTS (each node, without a shared
 * spool). Returns a descriptor to be closed after the connection; -EBUSY: none came free within wait_s; -ENOTSUP: the
 * file system has no locks, so there is no limit either.
 */
int spool_slot_take(const struct spool *spool, unsigned wait_s);

/*
 * Shared-spool work is done as spool_user (a file server may squash root), to the end of the scope. NULL, and nothing
 * to be left, where the process acts as that user already or cannot change.
 */
#define cleanup_leave __attribute__((cleanup(spool_leave), unused))
const struct spool *spool_enter(const struct spool *spool);
void spool_leave(const struct spool **entered);
