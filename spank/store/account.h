/*
 * Account: a job's record into slurmdbd, by its API and not by sacctmgr, which damages JSON. Only in mpi-wait-node.
 *
 * Needs root or SlurmUser (any uid may connect; slurmdbd refuses others). slurmdbd serves 100 connections in all: open
 * one late, close it soon.
 *
 * Every job is a transaction of its own. One of several rows can deadlock with slurmctld's, and of two that do the
 * database rolls one back, whereupon slurmdbd repeats its last statement only: slurmctld's others would be lost.
 *
 * Slurm's library opens a connection that broke anew without a word, and what was not committed is gone then: so the
 * row is looked up again after the commit, and after a failure nothing is stored any more.
 */
#ifndef MPIWAIT_SPANK_ACCOUNT_H
#define MPIWAIT_SPANK_ACCOUNT_H

#include <stdint.h>
#include <time.h>

#include "spank/error.h"
#include "spank/record.h"
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

/* NULL: nothing. */
void account_close(struct account *account);

/*
 * Puts the record's line into the run's field, or into the next one (admin_comment, system_comment, extra from Slurm
 * 23.02 on) where the field holds somebody else's text. joules >= 0 sets the job's energy too, where Slurm can (25.11).
 * Returns 0; ACCOUNT_NOT_YET, also while the job runs on elsewhere; -EALREADY: a record that is as good (record.h) is
 * there; -EEXIST: no field is free; -EIO with slurmdbd's reason: it may not be held for stored.
 */
int account_store(struct account *account, const struct account_run *run, enum site_field field,
                  const struct record *record, double joules, struct error *error);

#endif
