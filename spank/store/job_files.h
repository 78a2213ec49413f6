/*
 * Job files: what the nodes of one job have left, in its directory of the spool, or in the outbox.
 *
 * Every file is hostile input: its name must be in the job's node list, its size and contents are bounded. Who merges
 * holds the job's lock. A job whose files are gone has been stored by somebody else.
 *
 * All return 0, -ENOENT (there is nothing of the job), or -errno with the job's key in the message.
 */
#pragma once

#include "spank/base/error.h"
#include "spank/record/node.h"
#include "spank/store/spool.h"

#define JOB_FILES_LISTS 64 /* different node lists among one job's files */

/* A node list that files name. */
struct job_list {
	char *text;
	struct nodelist *names; /* NULL: it is none, or nobody's any more */
	bool counts;            /* its nodes are the job's */
};

/* A node's record; its node list is that of list. */
struct job_entry {
	struct record_node *node;
	size_t list;
	int place; /* of the node in its own list, from 0; -1: not in it */
	bool is_of_run;
};

struct job_files {
	struct spool *spool;
	const char *key; /* the caller's */
	int directory;   /* holds the files; the lock is in it too */
	int lock;
	size_t count;
	struct job_entry *entry;         /* in the order of the node list */
	const struct record_node **node; /* the entries' */
	uint32_t nodes_of;
	bool has_first; /* the first node of the list is there */
	size_t refused; /* files that are no records of the job's nodes */
	size_t others;  /* records of other runs of the job, which stay */
	size_t list_count;
	struct job_list list[JOB_FILES_LISTS];
	bool starved; /* there was no memory to compare lists */
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
 * out, and named in the log; count may be 0. A job that was made smaller has files with different node lists: those of
 * its last nodes come first. -EBUSY: somebody else merges. Freed by job_files_free, also on failure.
 */
int job_files_take(struct spool *spool, const char *key, unsigned wait_s, struct job_files *ret_files,
                   struct error *error);

/* Forgets all, unlocks and closes. */
void job_files_free(struct job_files *files);

/* Removes what was read, and the job's directory if nothing else is in it. */
void job_files_remove(struct job_files *files);

/* Nothing of it will ever be stored: removes all that is there of the job, under its lock. */
int job_files_discard(struct spool *spool, const char *key, unsigned wait_s);
