/*
 * Job entries: decides which of a job's node records belong together: which run they are of, which nodes the job had,
 * and in which order. Does no I/O.
 *
 * A job that gave nodes back has records with different node lists. slurmctld tells a node that was lost only of
 * itself. A job that ran twice may have records of both runs. Any record may be forged, so no single one can make a job
 * larger.
 */
#pragma once

#include "spank/base/error.h"
#include "spank/record/parse.h"

#define JOB_LISTS 64 /* most different node lists among one job's records */

/* A node list, as one or more records have it. */
struct job_list {
	char *text;
	struct nodelist *names; /* NULL: the text is no node list, or a wider list holds for its records */
	bool counts;            /* its nodes are the job's */
};

/* A node's record. */
struct job_entry {
	struct record_node *node; /* owned; node->nodes points to its list's text */
	size_t list;              /* index of its node list in job_entries */
	int index;                /* index of the node in its list, from 0 on; -1: not in it */
	bool is_of_run;           /* the record is of the run that is kept */
};

/* Zeroed before its first use. */
struct job_entries {
	size_t count;
	struct job_entry *entry;         /* `count` entries, in the order of the node list, then `left_out` others */
	const struct record_node **node; /* the records of the first `count` entries */
	uint32_t nodes_of;               /* number of the job's nodes */
	bool has_first;                  /* the first node of the list has reported */
	size_t left_out;                 /* entries that are in none of the job's lists */
	size_t others;                   /* records of other runs of the job, which were freed */
	size_t list_count;
	struct job_list list[JOB_LISTS];
	bool starved; /* lists could not be compared for lack of memory */
};

/*
 * Adds a record, which job_entries_free then frees. Returns 0, or -EINVAL (too many lists) or -ENOMEM: the record stays
 * the caller's.
 */
int job_entries_add(struct job_entries *entries, struct record_node *node, struct error *error);

/*
 * Judges the entries. Called once, after the last one was added. Keeps those of the most credible run, and sorts them:
 * the nodes that the job had last, then nodes that it gave back, then those in none of its lists. Returns 0 or -ENOMEM.
 */
int job_entries_judge(struct job_entries *entries);

void job_entries_free(struct job_entries *entries);
