/*
 * Paths of a node's state: <root>/<node>/<job id>/ (mode 0700, root's) holds what is known of a job while it runs.
 * node/state.h describes its files. The files of frequency domains lie beside the jobs (cpufreq/domain_file.h).
 */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#define STATE_ROOT "/run/mpi-wait"
#define STATE_NONE UINT32_MAX /* instead of an id: there is none */

/* Slurm's numbers of the steps that have names (slurm.h, SLURM_EXTERN_CONT and others). */
#define STATE_STEP_EXTERN      0xfffffffcu
#define STATE_STEP_BATCH       0xfffffffbu
#define STATE_STEP_INTERACTIVE 0xfffffffau

struct run_directory {
	char root[PATH_MAX];
	char node[64];
};

/*
 * Fills in root (NULL: STATE_ROOT) and the node's name: SLURMD_NODENAME, or, without that variable, the host's short
 * name. Returns 0, or -EINVAL if a name is too long or may not be part of a path.
 */
int run_directory_init(const char *root, struct run_directory *ret_run_directory);

/*
 * Open <root>/<node>, which is made if missing, and the job's directory, which is not. Return a descriptor, -ENOENT,
 * -EPERM (see files_directory) or another -errno.
 */
int run_directory_open_node(const struct run_directory *run_directory);
int run_directory_open_job(const struct run_directory *run_directory, uint32_t job_id);

/* As run_directory_open_job, but a missing directory is made with `mode`. */
int run_directory_make_job(const struct run_directory *run_directory, uint32_t job_id, mode_t mode);

/* Writes "batch", "extern", "interactive" or the number. */
void state_step_name(uint32_t step_id, char name[16]);
