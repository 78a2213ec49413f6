/*
 * Account: a job's record into slurmdbd, by its API and not by sacctmgr, which damages JSON. Only in mpi-wait-node.
 *
 * Needs root or SlurmUser (any uid may connect; slurmdbd refuses others). Every modification of one connection is
 * rolled back unless it is committed. slurmdbd serves 100 connections in all: open one late, close it soon.
 *
 * Slurm's library opens a connection that broke anew without a word, and what was not committed is gone then: so the
 * first modification is looked up again after the commit, and after a failure nothing is committed at all.
 */
#ifndef MPIWAIT_SPANK_ACCOUNT_H
#define MPIWAIT_SPANK_ACCOUNT_H

#include <stdint.h>
#include <time.h>

#include "spank/error.h"
#include "spank/site.h"

#define ACCOUNT_NOT_YET 2 /* the run's row is not there, or has no end time */
#define ACCOUNT_NONE    UINT32_MAX

struct account;

/*
 * Which run of which job. A requeued job has several rows of one id, and one that was resized too; node is one of those
 * that it had at its end. The times are by the nodes' clocks.
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

int account_open(struct account **ret_account, struct error *error);

/* Without account_commit before, nothing was changed. NULL: nothing. */
void account_close(struct account *account);

/*
 * Puts the record's line into the run's field, or into the next one (admin_comment, system_comment, extra from Slurm
 * 23.02 on) where the field holds somebody else's text. joules >= 0 sets the job's energy too, where Slurm can (25.11).
 * Returns 0; ACCOUNT_NOT_YET, also while the job runs on elsewhere; -EALREADY: a record of at least as many nodes is
 * there; -EEXIST: no field is free; -EIO with slurmdbd's reason.
 */
int account_store(struct account *account, const struct account_run *run, enum site_field field, const char *line,
                  double joules, struct error *error);

/* Makes everything stored since account_open last. Returns 0, or -EIO: nothing of it may be held for stored. */
int account_commit(struct account *account, struct error *error);

#endif
