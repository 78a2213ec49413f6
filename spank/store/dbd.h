/*
 * dbd: stores a job's record in slurmdbd, by Slurm's API; sacctmgr would damage the JSON. Only mpi-wait-node links
 * it.
 *
 * The process must run as root or SlurmUser: slurmdbd refuses changes by other users. slurmdbd serves 100 connections
 * in all, so callers open one only when they have something to store, and close it soon.
 *
 * Each job is a transaction of its own. A transaction with several rows could deadlock with one of slurmctld's. The
 * database then rolls one of them back, and slurmdbd repeats only its last statement: slurmctld would lose changes.
 *
 * Slurm's library reopens a broken connection silently, and changes that were not committed are lost. So the row is
 * read again after the commit, and after a failure nothing more is stored by that connection.
 */
#pragma once

#include <errno.h>

#include "spank/base/error.h"
#include "spank/policy/site.h"
#include "spank/record/merge.h"
#include "spank/store/dbd_row.h"

struct dbd;

#define DBD_AWAY -ENOTCONN /* slurmdbd cannot be reached, for any job */

/* Connects to slurmdbd. Returns 0, DBD_AWAY with slurmdbd's reason in error, or -ENOMEM. */
int dbd_open(struct dbd **ret_dbd, struct error *error);

/* Closes the connection. dbd may be NULL. */
void dbd_close(struct dbd *dbd);

/*
 * Writes the record's line into a field of the run's row. If `field` holds somebody else's text, the next one is used:
 * admin_comment, system_comment, extra (Slurm 23.02 and later). With joules >= 0, sets the job's energy too, if Slurm
 * can (25.11 and later).
 *
 * Returns 0; DBD_NOT_YET, also while the job still runs on other nodes; -EALREADY (the field holds a record that is
 * as good, see record/merge.h); -EEXIST (no field is free); or -EPROTO with the reason: slurmdbd refused the change,
 * did not answer, or does not return what was written. After -EPROTO the record counts as not stored, and the caller
 * closes the connection.
 */
int dbd_store(struct dbd *dbd, const struct dbd_run *run, enum site_field field, const struct record *record,
              double joules, struct error *error);
