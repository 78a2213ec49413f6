/*
 * Undoing for those who no longer can: the job's epilog, and mpi-wait-node restore at boot, by a health check, or by
 * hand. A later job's claim (journal_claim) is the third.
 *
 * Any of them may be killed at any point, and several may run at once: each starts over from the journals, under their
 * locks. One line is logged for every file that is put back, left alone, or refused.
 */
#ifndef MPIWAIT_SPANK_RESTORE_H
#define MPIWAIT_SPANK_RESTORE_H

#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/base/run_directory.h"

struct restore_count {
	uint32_t journals; /* that were undone, or, with dry_run, would be */
	uint32_t settings; /* values, and owners with modes, that were put back, or would be */
	uint32_t left;     /* settings that somebody else has changed since */
	uint32_t live;     /* journals whose holder is alive */
	uint32_t refused;  /* journals, claims or directories that were refused */
	uint32_t failed;   /* settings that could not be put back */
};

/*
 * Undoes every journal of a job, whether its stepd is alive or not: for the epilog, before state_job_remove. Logs.
 * Returns 0, also if there is no journal, or -errno if something was refused or is left.
 */
int restore_job(const struct state_place *place, const char *sysfs, uint32_t job_id);

/*
 * Undoes every orphaned journal under a state root, whatever the node is called: of which the stepd is gone (process
 * number and start time), or, for a job's own journal, the job's state. A live holder's is never touched; one of an
 * earlier boot is only removed. dry_run: changes nothing and says what would be done. Logs.
 * Returns 0 or -errno if something was refused or is left.
 */
int restore_host(const char *root, const char *sysfs, bool dry_run, struct restore_count *ret_count);

#endif
