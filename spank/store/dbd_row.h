/*
 * dbd_row: finds the row of one run of a job in slurmdbd, and the query that selects only that row.
 *
 * Rows are searched for at a time inside the run. Other rows may have the same job id: those of other tasks of an
 * array, of earlier and later runs, and of the same run before it was resized.
 */
#pragma once

#include <slurm/slurm.h>
#include <slurm/slurmdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "spank/base/error.h"

#define DBD_NOT_YET 2          /* the run's row is not there, or has no end time */
#define DBD_NONE    UINT32_MAX /* instead of an id: there is none */

/* One run of a job. Requeued and resized jobs have several rows of one id. The times are by the nodes' clocks. */
struct dbd_run {
	const char *cluster;
	uint32_t job_id;
	uint32_t array_job_id;  /* DBD_NONE: the job is not of an array */
	uint32_t array_task_id; /* DBD_NONE: the job is not of an array */
	time_t begun;           /* when the run began */
	time_t end;             /* when the run ended */
	time_t at;              /* a time inside the run */
	const char *node;       /* a node that the job had at its end */
};

/* A query to slurmdbd. Its lists point into the struct itself, so it must not be copied. */
struct query {
	struct dbd_run run;
	slurmdb_job_cond_t condition;
	slurm_selected_step_t selected;
	char state[12];
};

struct row {
	slurmdb_job_rec_t *job; /* the best row, an item of list; NULL: none */
	void *list;             /* freed by row_free; NULL: none */
	int found;              /* number of rows that may be the run's */
};

/* Frees the query's lists. */
void query_free(struct query *query);

/* Frees the row's list, and with it the row itself. */
void row_free(struct row *row);

/*
 * Finds the run's row, and leaves in *ret_query the query that selects it alone. The caller frees both, also on
 * failure. Returns 0, DBD_NOT_YET, -EEXIST (several rows cannot be told apart) or -EPROTO.
 */
int row_find(void *connection, const struct dbd_run *run, struct query *ret_query, struct row *ret_row,
             struct error *error);

/* Runs a query again. Returns how many rows it selects, or -EPROTO. */
int row_again(void *connection, struct query *query, struct row *ret_row, struct error *error);
