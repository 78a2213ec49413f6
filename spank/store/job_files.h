/*
 * Job files: what the nodes of one job have left, in its directory of the spool, or in the outbox.
 *
 * Every file is hostile input: its name must be in the job's node list, its size and contents are bounded. Who merges
 * holds the job's lock. A job whose files are gone has been stored by somebody else.
 *
 * What looks, takes or discards returns 0, -ENOENT (there is nothing of the job), or -errno, with the job's key in the
 * message.
 */
#pragma once

#include "spank/base/error.h"
#include "spank/store/job_entries.h"
#include "spank/store/spool.h"

/* A job's directory, open and locked. */
struct job_files {
	struct spool *spool;
	const char *key; /* the caller's */
	int directory;   /* holds the files; the lock is in it too */
	int lock;
	size_t refused; /* files that are no records of the job's nodes */
	struct job_entries entries;
};

#define cleanup_job_files __attribute__((cleanup(job_files_free)))

/* What can be told of a job's files by their names and one of them. */
struct job_files_view {
	size_t files;
	uint32_t nodes_of;                /* as the first file says that can be read; 0: none can */
	char first[RECORD_NODE_NAME_MAX]; /* node of that list */
	bool has_node;                    /* the node's file is there */
	time_t newest; /* when the latest file was written; without files, the directory; only if no node is named */
};

/*
 * Counts, and reads one file, that of the node if it can be read (NULL: any). Cheap however large the job, because the
 * first node does it again and again.
 */
int job_files_look(struct spool *spool, const char *key, const char *node, struct job_files_view *ret_view,
                   struct error *error);

/*
 * Takes the job's lock, waiting at most so long, and reads what is there. A file that is not what it should be is left
 * out, and named in the log; there may be no entries. -EBUSY: somebody else merges. Freed by
 * job_files_free, also on failure.
 */
int job_files_take(struct spool *spool, const char *key, unsigned wait_s, struct job_files *ret_files,
                   struct error *error);

/* Forgets all, unlocks and closes. */
void job_files_free(struct job_files *files);

/* Removes what was read, and the job's directory if nothing else is in it. */
void job_files_remove(struct job_files *files);

/* Nothing of it will ever be stored: removes all that is there of the job, under its lock. */
int job_files_discard(struct spool *spool, const char *key, unsigned wait_s);

/* Returns how often the job could not be stored for a reason of its own, 3 at most; job_files_fail counts once more. */
unsigned job_files_failures(struct spool *spool, const char *key);
void job_files_fail(struct spool *spool, const char *key);
