/*
 * Account row: finds the row of one run of a job in slurmdbd, and what selects it alone.
 *
 * A row is found at a time inside the run, and told from others of the same id: of other tasks of an array, of earlier
 * and later runs, and of the same run before it was resized.
 */
#pragma once

#include <slurm/slurm.h>
#include <slurm/slurmdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "spank/base/error.h"

#define ACCOUNT_NOT_YET 2 /* the run's row is not there, or has no end time */
#define ACCOUNT_NONE    UINT32_MAX

/*
 * Which run of which job a record is of, as slurmdbd is asked for its row. A requeued job has several rows of one id,
 * and one that was resized too; node is one of those that it had at its end. The times are by the nodes' clocks.
 */
struct account_run {
	const char *cluster;
	uint32_t job_id;
	uint32_t array_job_id; /* ACCOUNT_NONE: no array */
	uint32_t array_task_id;
	time_t begun;
	time_t end;
	time_t at; /* inside the run */
	const char *node;
};

/* What slurmdbd is asked; its lists point into itself. */
struct query {
	struct account_run run;
	slurmdb_job_cond_t condition;
	slurm_selected_step_t selected;
	char state[12];
};

/* A row, and the list that it is freed with; NULL: none. */
struct row {
	slurmdb_job_rec_t *job;
	void *list;
	int found; /* rows that may be the run's */
};

void query_free(struct query *query);

void row_free(struct row *row);

/*
 * Leaves in *ret_query what selects the row alone, and in *ret_row what it holds; both are the caller's to free, also
 * on failure. Returns 0, ACCOUNT_NOT_YET, -EEXIST (several that cannot be told apart) or -EPROTO.
 */
int row_find(void *connection, const struct account_run *run, struct query *ret_query, struct row *ret_row,
             struct error *error);

/* Reads what a query selects, anew. Returns how many rows that are, or -EPROTO. */
int row_again(void *connection, struct query *query, struct row *ret_row, struct error *error);
