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
#include "spank/store/account_run.h"

/* From Slurm 23.02 on there is a third free field. */
#define ACCOUNT_HAS_EXTRA (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0))

/* What slurmdbd is asked. List handles are void pointers here: their type's name changed between releases. */
struct query {
	slurmdb_job_cond_t condition;
	slurm_selected_step_t selected;
	char cluster[64];
	char state[12];
};

/* The row's texts, copied; fields in the order of enum site_field. */
struct row {
	uint32_t array_job_id; /* 0: none */
	uint32_t array_task_id;
	time_t start;
	time_t end; /* 0: it runs */
	uint32_t state;
	bool has_node; /* the run's node is one of the row's */
	char *field[3];
};

void query_free(struct query *query);

void row_free(struct row *row);

/*
 * Leaves in *ret_query what selects the row alone, and in *ret_row what it holds; both are the caller's to free, also
 * on failure. Returns 0, ACCOUNT_NOT_YET, -EEXIST (several that cannot be told apart) or -EIO.
 */
int row_find(void *connection, const struct account_run *run, struct query *ret_query, struct row *ret_row,
             struct error *error);

/* Reads what a query selects, anew. Returns how many rows that are, or -EIO. */
int row_again(void *connection, struct query *query, struct row *ret_row, struct error *error);
