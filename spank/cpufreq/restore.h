/*
 * Restores a frequency domain to what its file (domain_file.h) says was found: owner and mode first, then the value,
 * which is read back. Run by the holder itself, by the next holder, or, if the holder died, by the job's epilog or
 * `mpi-wait-node restore` (at boot, by a health check, or by hand). Each of them may be killed at any point, and
 * several may run at once: the file is freed only when all is restored.
 *
 * A value that is neither the one found nor one that the holder writes was set by somebody else since, such as an
 * administrator or Slurm's --cpu-freq, and is left alone. So is a domain whose driver has changed. A file that was
 * given to the job's user is restored whatever its value, unless its owner is neither that user nor the one found.
 *
 * A momentary cap is not a setting. scaling_max_freq shows the lower one of cap and setting, so a value below what the
 * holder writes may be either. Writing the value found tells: if the value stays, it is a cap; if not, it was
 * somebody's setting, and is written again at once.
 *
 * One line is logged for each setting that is restored, left alone or refused.
 */
#pragma once

#include <stdbool.h>

#include "spank/base/run_directory.h"
#include "spank/cpufreq/domain_file.h"

struct restore_count {
	uint32_t domains;  /* domains whose holder is gone */
	uint32_t settings; /* values, and owners with modes, that were restored, or, with dry_run, would be */
	uint32_t left;     /* settings that somebody else has changed since */
	uint32_t live;     /* domains whose holder is alive */
	uint32_t refused;  /* files or directories that were refused */
	uint32_t failed;   /* settings that could not be restored */
};

struct restore {
	bool dry_run; /* log what would be done, and change nothing */
	bool quiet;   /* log what is restored at debug level */
	struct restore_count count;
};

/* Restores a domain. The caller holds the file's lock and writes the file. Returns 0; -errno: a setting is left. */
int restore_domain(struct restore *restore, uint32_t policy, const struct domain_change *change);

/* Restores every domain that a job holds, also if the holder lives. Returns 0, or -errno if a setting is left. */
int restore_job(const struct run_directory *run_directory, uint32_t job_id);

/*
 * Restores every domain below a state root, for all node names, whose holder is gone. A domain held in an earlier boot
 * is only freed. Returns 0, or -errno if a file was refused or a setting is left.
 */
int restore_host(const char *root, bool dry_run, struct restore_count *ret_count);
