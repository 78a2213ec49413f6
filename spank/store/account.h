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
#pragma once

#include <errno.h>

#include "spank/base/error.h"
#include "spank/policy/site.h"
#include "spank/record/job_record.h"
#include "spank/store/account_row.h"

struct account;

#define ACCOUNT_AWAY -ENOTCONN /* there is no connection: other jobs would fare no better */

/* Returns 0 or ACCOUNT_AWAY with slurmdbd's reason, or -ENOMEM. */
int account_open(struct account **ret_account, struct error *error);

/* NULL: nothing. */
void account_close(struct account *account);

/*
 * Puts the record's line into the run's field, or into the next one (admin_comment, system_comment, extra from Slurm
 * 23.02 on) where the field holds somebody else's text. joules >= 0 sets the job's energy too, where Slurm can (25.11).
 * Returns 0; ACCOUNT_NOT_YET, also while the job runs on elsewhere; -EALREADY: a record that is as good (job_record.h)
 * is there; -EEXIST: no field is free; -EPROTO: slurmdbd refused the change, did not answer, or returns the row
 * otherwise than it should be, with the reason. The job may not be held for stored then, and the connection is to be
 * closed.
 */
int account_store(struct account *account, const struct account_run *run, enum site_field field,
                  const struct record *record, double joules, struct error *error);
