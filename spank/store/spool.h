/*
 * Spool: the shared directory in which the records of a job's nodes meet, as <spool>/<key>/<node>.json. At a site that
 * has none, each node delivers from its own outbox.
 *
 * A key, CLUSTER-JOB-RUN, names one run of a job (outbox.h).
 *
 * The directory is used only if no user but root and spool_user can have written to it. Its files are hostile input all
 * the same (job_files.h).
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "spank/base/error.h"
#include "spank/policy/site.h"
#include "spank/store/listing.h"
#include "spank/store/outbox.h"

#define SPOOL_SLOTS 8 /* most connections to slurmdbd at a time */

struct spool {
	const struct site *site;
	const char *outbox_path;
	int outbox;             /* descriptor of the outbox */
	int shared;             /* descriptor of the shared spool; -1: the site has none */
	uid_t user;             /* the user as whom this process uses the shared spool; 0: root */
	struct listing listing; /* names in the outbox */
};

/*
 * Opens the outbox (NULL: OUTBOX_DIRECTORY) and the site's spool. The strings of site and outbox must outlive
 * *ret_spool. The spool must be an existing directory, no link, belong to root or spool_user, and be writable by no
 * other user. Returns 0, -EPERM or another -errno; error has the path, what is wrong and what to do.
 */
int spool_open(const struct site *site, const char *outbox, struct spool *ret_spool, struct error *error);

/* Closes both directories and frees the listing. */
void spool_close(struct spool *spool);

/*
 * Moves one node's record from the outbox to the shared spool, where it is durable before it is removed here. It goes
 * to the directory that has records of the same run; if the directory of its key has those of another run, to the next
 * free key. Writes the key that it got to ret_key, unless that is NULL. A record that is longer than a node's part of a
 * job's room is shortened, and says so. Returns 0, also if another process has moved it, or -errno.
 */
int spool_move(struct spool *spool, const char *key, const char *node, char ret_key[OUTBOX_KEY_MAX],
               struct error *error);

/*
 * Reads the names in the outbox anew, for spool_each, which reads them itself only at its first use. Returns 0 or
 * -errno.
 */
int spool_list(struct spool *spool);

/* As spool_list, but keeps the names if the outbox has not changed since they were read. */
int spool_refresh(struct spool *spool);

/* Sees one record in the outbox, or one directory of the shared spool (node NULL). Returns 0 to see the next one. */
typedef int (*spool_visit)(void *context, const char *key, const char *node);

/*
 * Calls visit for each record in the outbox, by the names of the latest spool_list, or for each job's directory in the
 * shared spool. `directory` is spool->outbox or spool->shared. Skips names of another form. Stops when visit returns
 * other than 0. Returns that, 0, or -errno if the directory cannot be read.
 */
int spool_each(struct spool *spool, int directory, spool_visit visit, void *context);

/*
 * Returns the time by the clock that dates the spool's files, since a file server has its own. Writes the time of the
 * latest call before this one to *ret_before, 0 if it is unknown.
 */
time_t spool_now(const struct spool *spool, time_t *ret_before);

/* Returns true if the error is of the spool itself, as of a full disk, so that every record would have it. */
bool spool_is_at_fault(int result);

/* Locks the file `name` in the directory; a missing one is made. Returns a descriptor, -EBUSY or another -errno. */
int spool_lock(const struct spool *spool, int directory, const char *name);

/*
 * Takes one of SPOOL_SLOTS permits to connect to slurmdbd, which all hosts of a shared spool, or the processes of one
 * node, have together. Returns a descriptor, which the caller closes after the connection; -EBUSY: none came free
 * within wait_s seconds; -ENOTSUP: the file system has no locks, so there is no limit.
 */
int spool_slot_take(const struct spool *spool, unsigned wait_s);

/*
 * spool_enter makes the process act as spool_user, since a file server may squash root; spool_leave, at the end of the
 * scope by cleanup_leave, makes it root again. spool_enter returns NULL, and changes nothing, if the process is that
 * user already or is not root.
 */
#define cleanup_leave __attribute__((cleanup(spool_leave), unused))
const struct spool *spool_enter(const struct spool *spool);
void spool_leave(const struct spool **entered);
