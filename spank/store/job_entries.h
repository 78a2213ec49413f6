/*
 * Job entries: the records that are there of one job, judged: which are of the run that holds, of which node lists the
 * job is made, and in which order its nodes stand. No file is touched.
 *
 * A job that was made smaller has records with different node lists; nodes that were lost are told of themselves alone;
 * a job that ran twice may have records of both runs. Any of them may be forged, so no single one makes a job larger.
 */
#pragma once

#include "spank/base/error.h"
#include "spank/record/node.h"

#define JOB_LISTS 64 /* different node lists among one job's records */

/* A node list that records name. */
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

/* Zeroed before its first use. */
struct job_entries {
	size_t count;
	struct job_entry *entry;         /* in the order of the node list */
	const struct record_node **node; /* the entries' */
	uint32_t nodes_of;
	bool has_first;  /* the first node of the list is there */
	size_t left_out; /* entries behind those that count: in none of the job's lists */
	size_t others;   /* records of other runs of the job, which were freed */
	size_t list_count;
	struct job_list list[JOB_LISTS];
	bool starved; /* there was no memory to compare lists */
};

/* Takes the node over if it returns 0; -EINVAL: there are too many lists; -ENOMEM. */
int job_entries_add(struct job_entries *entries, struct record_node *node, struct error *error);

/*
 * Once, after the last one was added: keeps the entries of the run that is believed most, those of its lists first.
 * Those of a job's last nodes come before those of nodes that it gave back. -ENOMEM.
 */
int job_entries_place(struct job_entries *entries);

void job_entries_free(struct job_entries *entries);
