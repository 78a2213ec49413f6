/*
 * Spool: where the records of a job's nodes meet, <spool>/<key>/<node>.json; without a shared spool, the outbox itself.
 *
 * The directory is trusted only if nobody but root or spool_user can have written there; every file in it is hostile
 * input all the same, see job_files.h.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "spank/base/error.h"
#include "spank/policy/site.h"
#include "spank/store/outbox.h"

#define SPOOL_SLOTS 8

struct spool {
	int outbox;
	int shared; /* -1: no spool= configured */
	uid_t user; /* whom the shared spool is written as */
	char outbox_path[PATH_MAX];
	char shared_path[PATH_MAX];
};

/*
 * Opens the outbox (outbox NULL: OUTBOX_DIRECTORY) and the site's spool. The spool must exist, be a directory and no
 * link, belong to root or spool_user and be writable by nobody else. Returns 0, -EPERM or -errno with the path, what is
 * wrong with it and what to do.
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

/*
 * Calls visit for every job of which there is something: keys of the shared spool, or of the outbox (with the node's
 * name). Stops where visit returns other than 0, and returns that.
 */
typedef int (*spool_visit)(void *context, const char *key, const char *node);
int spool_each_outbox(struct spool *spool, spool_visit visit, void *context);
int spool_each_shared(struct spool *spool, spool_visit visit, void *context);

/* The time by the clock that dates the spool's files: a file server has its own. */
time_t spool_now(struct spool *spool);

/* Removes what writers that were killed have left in the outbox. */
void spool_tidy(struct spool *spool);

/*
 * A permit to connect to slurmdbd, of which all hosts of a spool together have SPOOL_SLOTS (each node, without a shared
 * spool). Returns a descriptor to be closed after the connection; -EBUSY: none came free within wait_s; -ENOTSUP: the
 * file system has no locks, so there is no limit either.
 */
int spool_slot_take(struct spool *spool, unsigned wait_s);

/*
 * That this process is the one that drains the node's outbox, by these site arguments, which are noted then. Returns a
 * descriptor to be closed when it no longer does; -EBUSY: another is; another -errno: the file system has no locks.
 */
int spool_writer_lock(struct spool *spool, const char *words);

/* By which site arguments the outbox is to be drained. Returns whether it was by these before. */
bool spool_writer_note(struct spool *spool, const char *words);

/* Whether the outbox is to be drained by these. */
bool spool_writer_noted(struct spool *spool, const char *words);

/*
 * What is kept of the job in <spool>/done already: the caller's to free, untouched where there is nothing. Returns 0,
 * or -errno where it could not be read.
 */
int spool_kept(struct spool *spool, const char *key, char **ret_text);

/* Keeps the job's record as a file, <spool>/done/<key>.json, readable by the job's group (sink=file). */
int spool_keep(struct spool *spool, const char *key, gid_t group, const char *line, struct error *error);

/* Shared-spool work is done as spool_user (a file server may squash root): between these two. */
void spool_enter(const struct spool *spool);
void spool_leave(const struct spool *spool);
