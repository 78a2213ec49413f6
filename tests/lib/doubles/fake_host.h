/*
 * A double of the process that loads a SPANK plugin: enough of Slurm's API to drive spank_mpi_wait.so through its
 * callbacks, with the environment, the items and the log under the test's eyes.
 */
#pragma once

#include <slurm/spank.h>
#include <stdint.h>
#include <sys/types.h>

/* Slurm counts as cores: the machine's, their threads, or two for each CPU (config_overrides). */
enum fake_cores { FAKE_CORES, FAKE_THREADS, FAKE_TOO_MANY };

struct fake_host {
	enum spank_context context;
	uint32_t job_id;
	uint32_t step_id;
	uint32_t user; /* and group */
	uint32_t local_tasks;
	uint16_t cpus_per_task;
	uint32_t total_tasks; /* of the step; task i here has the number i * task_stride + 1 in it */
	uint32_t task_stride;
	uint32_t task; /* whose callbacks are called: its number on this node, and its process, 0: the caller */
	pid_t task_pid;
	const char *cores; /* of job and step */
	enum fake_cores counts;
	char *words[2];     /* the task's command */
	const char *option; /* what spank_option_getopt finds, NULL: nothing */
	char log[8192];     /* every line, with its newline */
	int log_to;         /* a descriptor for the same, over 0, for a process that will not come back */
	char promoted[256]; /* NAME=VALUE of the last spank_job_control_setenv */
};

extern struct fake_host fake_host;

/* Forgets the environment, the log and the option. */
void fake_host_reset(enum spank_context context);

/* The task's environment: NULL for none. */
const char *fake_host_getenv(const char *name);

/* Loads the plugin anew (its static state too); gives the option to its callback where text is not NULL. */
void fake_host_load(const char *plugin, const char *option, int argument_count, char **arguments);

/* Unloads it, as slurmstepd does at its end. */
void fake_host_unload(void);

/* Calls slurm_spank_<hook>; returns its result. */
int fake_host_call(const char *hook, int argument_count, char **arguments);
