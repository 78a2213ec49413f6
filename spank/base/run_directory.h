/*
 * Where on a node everything lies that is about its jobs while they run: <root>/<node>/<job id>/ (0700, root). What the
 * files there say is state.h's; what is about a clock lies beside the jobs (cpufreq/domain_file.h).
 */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#define STATE_ROOT "/run/mpi-wait"
#define STATE_NONE UINT32_MAX /* no id */

/* Slurm's numbers for steps that have names. */
#define STATE_STEP_EXTERN      0xfffffffcu
#define STATE_STEP_BATCH       0xfffffffbu
#define STATE_STEP_INTERACTIVE 0xfffffffau

struct state_place {
	char root[PATH_MAX];
	char node[64];
};

/* root NULL: STATE_ROOT. The node is SLURMD_NODENAME, outside Slurm the host's short name. -EINVAL: no usable name. */
int state_place_init(const char *root, struct state_place *ret_place);

/* Descriptors of <root>/<node> (made if missing) and of the job's directory; -ENOENT, -EPERM or -errno. */
int state_open_node(const struct state_place *place);
int state_open_job(const struct state_place *place, uint32_t job_id);

/* As state_open_job, made with that mode if it is missing. */
int state_make_job(const struct state_place *place, uint32_t job_id, mode_t mode);

/* "batch", "extern", "interactive" or the number. */
void state_step_name(uint32_t step_id, char name[16]);
