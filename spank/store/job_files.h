/*
 * Collection: the files that the nodes of one job have left, in its directory of the spool, or in the outbox.
 *
 * Every file is hostile input: its name must be in the job's node list, its size and contents are bounded. Who merges
 * holds the job's lock. A job whose files are gone has been stored by somebody else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "spank/base/error.h"
#include "spank/base/files.h"
#include "spank/record/node.h"
#include "spank/store/spool.h"

#define COLLECTION_LISTS 64 /* different node lists among one job's files */

struct job_files {
	char key[128];
	int directory; /* holds the files; the lock is in it too */
	int lock;      /* -1: not locked */
	bool in_outbox;
	size_t count;
	struct record_node **node; /* in the order of the node list */
	uint32_t nodes_of;
	bool has_first; /* the first node of the list is there */
	size_t refused; /* files that are no records of the job's nodes */
	size_t others;  /* records of other runs of the job, which stay */
	size_t list_count;
	char *list[COLLECTION_LISTS]; /* the node lists that node points to */
};

/* What can be told of a job's files by their names and one of them. */
struct job_files_view {
	size_t files;
	uint32_t nodes_of;                /* as the first file says that can be read; 0: none can */
	char first[RECORD_NODE_NAME_MAX]; /* node of that list */
	bool has_first;                   /* a file of that name is there */
	time_t newest; /* when the latest file was written; without files, the directory; only if no node is named */
};

/* Opens the job's directory. Returns 0, -ENOENT (there is nothing of the job) or -errno. Freed by job_files_free. */
int job_files_open(struct spool *spool, const char *key, struct job_files **ret_collection, struct error *error);

/* Forgets all, unlocks and closes. NULL: nothing. */
void job_files_free(struct job_files *collection);

/*
 * Counts, and reads one file, that of the node if it can be read (NULL: any). Cheap however large the job, because the
 * first node does it again and again. Returns 0 or -errno.
 */
int job_files_look(struct spool *spool, const struct job_files *collection, const char *node,
                   struct job_files_view *ret_view);

/*
 * Takes the job's lock, waiting at most so long. Returns 0, -EBUSY (somebody else merges), -ENOENT (somebody else has
 * merged: the directory is gone) or -errno.
 */
int job_files_lock(struct spool *spool, struct job_files *collection, unsigned wait_s);

/*
 * Reads what is there of a job that is locked. A file that is not what it should be is left out, and named in the log.
 * A job that was made smaller has files with different node lists: those of its last nodes come first. Returns 0 (count
 * may be 0) or -errno.
 */
int job_files_read(struct spool *spool, struct job_files *collection, struct error *error);

/* Every node of the job is there. */
bool job_files_is_complete(const struct job_files *collection);

/* Removes its files, and the job's directory if nothing else is in it. */
void job_files_remove(struct spool *spool, struct job_files *collection);

/* Nothing of it will ever be stored: removes everything that is there of the job. */
void job_files_discard(struct spool *spool, struct job_files *collection);

/* A node's file name in there. */
void job_files_file_name(const struct job_files *collection, const char *node, char name[FILES_NAME_MAX + 1]);

/* Whether that is a name of one of the job's files. */
bool job_files_owns(const struct job_files *collection, const char *name);
