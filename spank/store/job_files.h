/*
 * Job files: the records that the nodes of one job have left, in its directory of the spool or in the outbox.
 *
 * Every file is hostile input: its name must be in the job's node list, and its size and contents are bounded. The
 * process that merges a job holds its lock. If the files are gone, another process has stored the job.
 *
 * Functions that return an int return 0, -ENOENT (there is nothing of the job) or another -errno. Their messages name
 * the job's key.
 */
#pragma once

#include "spank/base/error.h"
#include "spank/store/job_entries.h"
#include "spank/store/spool.h"

/* A job's directory, open and locked. */
struct job_files {
	struct spool *spool;
	const char *key; /* the job's key; the caller's memory */
	int directory;   /* descriptor of the directory that holds the files and the lock's file */
	int lock;        /* descriptor of the locked file; -1: not locked */
	size_t refused;  /* files that are no records of the job's nodes */
	struct job_entries entries;
};

#define cleanup_job_files __attribute__((cleanup(job_files_free)))

/* Facts about a job's files, from their names and the contents of one of them. */
struct job_files_view {
	size_t files;
	uint32_t nodes_of;                /* number of the job's nodes, by the file that was read; 0: none was */
	char first[RECORD_NODE_NAME_MAX]; /* first node of the job, by that file */
	bool has_node;                    /* the file of the node that was asked for is there */
	time_t newest; /* when the newest file was written; without files, the directory; not with a node */
};

/*
 * Counts the job's files and reads one of them: the node's, if it can be read, else (or with node NULL) the first that
 * can. A job's first node does this again and again, so it is cheap however large the job is. For a node that is not
 * the job's first, by its own file, nothing is counted.
 */
int job_files_count(struct spool *spool, const char *key, const char *node, struct job_files_view *ret_view,
                    struct error *error);

/*
 * Takes the job's lock, waiting wait_s seconds at most, and reads the files. Files that are no records of the job's
 * nodes are left out, and named in the log; there may be no entries. Returns -EBUSY if another process has the lock.
 * The caller calls job_files_free, also on failure.
 */
int job_files_take(struct spool *spool, const char *key, unsigned wait_s, struct job_files *ret_files,
                   struct error *error);

/* Frees the entries, unlocks and closes. */
void job_files_free(struct job_files *files);

/* Removes the files that were read, and the job's directory if it is empty then. */
void job_files_remove(struct job_files *files);

/* Removes all files of a job that will never be stored, under its lock, waiting wait_s seconds at most. */
int job_files_discard(struct spool *spool, const char *key, unsigned wait_s);

/*
 * Return, and count, how often the job could not be stored for a reason of its own. Counts up to 3, in a file beside
 * the job's files.
 */
unsigned job_files_failures(struct spool *spool, const char *key);
void job_files_fail(struct spool *spool, const char *key);
