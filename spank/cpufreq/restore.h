/*
 * Puts a frequency domain back as it was found, by its file (domain_file.h): owner and mode first, then the value,
 * which is read back. Who had the domain may do so, who takes it, or, for those who no longer can,
 * the job's epilog and mpi-wait-node restore: at boot, by a health check, or by hand. Any of them may be killed at any
 * point, and several may run at once: what is under way stands in the file until it is done.
 *
 * What holds neither what was found nor a value that the holder writes was changed by somebody else since (an
 * administrator, Slurm's --cpu-freq) and is left alone; so is another driver. But a file that was given to the job's
 * user is the job's, whatever it holds: only an owner who is neither the user nor the one who was found is another's.
 * A momentary cap is nobody's setting: scaling_max_freq shows the lower of the two, so a value below what is written
 * may be a cap that hides it, or a setting; writing the found value tells, and a setting is put back at once.
 *
 * One line is logged for everything that is put back, left alone, or refused.
 */
#pragma once

#include <stdbool.h>

#include "spank/base/run_directory.h"
#include "spank/cpufreq/domain_file.h"

struct restore_count {
	uint32_t domains;  /* of holders that are gone */
	uint32_t settings; /* values, and owners with modes, that were put back, or, with dry_run, would be */
	uint32_t left;     /* settings that somebody else has changed since */
	uint32_t live;     /* domains whose holder is alive */
	uint32_t refused;  /* files or directories that were refused */
	uint32_t failed;   /* settings that could not be put back */
};

struct restore {
	bool dry_run; /* say, do not do */
	bool quiet;   /* what is put back is for the debug log only */
	struct restore_count count;
};

/* Puts a domain back. The caller holds its lock, and writes its file. Returns 0, or -errno where something is left. */
int restore_domain(struct restore *restore, uint32_t policy, const struct domain_change *change);

/* Whatever a job still holds, whether its holder lives or not. Returns 0, or -errno where something is left. */
int restore_job(const struct state_place *place, uint32_t job_id);

/*
 * Every domain under a state root, whatever the node is called, whose holder is gone. One of an earlier boot is only
 * freed. Returns 0, or -errno where something was refused or is left.
 */
int restore_host(const char *root, bool dry_run, struct restore_count *ret_count);
