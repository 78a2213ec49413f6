/*
 * Spool: where the records of a job's nodes meet, <spool>/<key>/<node>.json; without a shared spool, the outbox itself.
 *
 * The directory is trusted only if nobody but root or spool_user can have written there; every file in it is hostile
 * input all the same: its name must be in the job's node list, its size and contents are bounded. Who merges holds the
 * directory's lock.
 */
#ifndef MPIWAIT_SPANK_SPOOL_H
#define MPIWAIT_SPANK_SPOOL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "spank/error.h"
#include "spank/record_node.h"
#include "spank/site.h"

struct spool {
	int outbox;
	int shared; /* -1: no spool= configured */
	uid_t user; /* whom the shared spool is written as */
	char outbox_path[PATH_MAX];
	char shared_path[PATH_MAX];
};

/* The node files of one job, as far as they are there. */
struct collection {
	char key[128];
	int directory; /* holds the files; the lock is in it too */
	int lock;      /* -1: not locked */
	bool in_outbox;
	size_t count;
	struct record_node **node; /* in the order of the node list */
	json_t **json;             /* what they borrow from */
	uint32_t nodes_of;
	bool has_first; /* the first node of the list is there */
	time_t newest;  /* when the latest file was written */
};

/*
 * Opens the outbox (outbox NULL: OUTBOX_DIRECTORY) and the site's spool. The spool must exist, be a directory and no
 * link, belong to root or spool_user and be writable by nobody else. Returns 0, -EPERM or -errno with the path, what is
 * wrong with it and what to do.
 */
int spool_open(const struct site *site, const char *outbox, struct spool *ret_spool, struct error *error);
void spool_close(struct spool *spool);

/* Moves one node's record from the outbox to the shared spool: there it is durable before it leaves here. */
int spool_move(struct spool *spool, const char *key, const char *node, struct error *error);

/*
 * Reads what is there of a job. A file that is not what it should be is left out, and named in the log.
 * Returns 0 (count may be 0), or -errno. Freed by collection_free, which also unlocks.
 */
int spool_collect(struct spool *spool, const char *key, struct collection **ret_collection, struct error *error);
void collection_free(struct collection *collection);

/*
 * Takes the job's lock, waiting at most so long; what was read before may be gone by then, so collect again. Returns 0,
 * -EBUSY (somebody else merges) or -errno.
 */
int collection_lock(struct spool *spool, struct collection *collection, unsigned wait_s);

/* What it says is stored: removes its files, and the job's directory if nothing else is in it. */
void collection_remove(struct spool *spool, struct collection *collection);

/*
 * Calls visit for every job of which there is something: keys of the shared spool, or of the outbox (with the node's
 * name). Stops where visit returns other than 0, and returns that.
 */
typedef int (*spool_visit)(void *context, const char *key, const char *node);
int spool_each_outbox(struct spool *spool, spool_visit visit, void *context);
int spool_each_shared(struct spool *spool, spool_visit visit, void *context);

/* Keeps the job's record as a file, <spool>/done/<key>.json, readable by the job's group (sink=file). */
int spool_keep(struct spool *spool, const char *key, gid_t group, const char *line, struct error *error);

/* Shared-spool work is done as spool_user (a file server may squash root): between these two. */
void spool_enter(const struct spool *spool);
void spool_leave(const struct spool *spool);

#endif
