/*
 * A double of the process that loads a SPANK plugin: enough of Slurm's API to drive spank_mpi_wait.so through its
 * callbacks. The test sets and reads the environment, the items and the log.
 */
#pragma once

#include <slurm/spank.h>
#include <stdint.h>
#include <sys/types.h>

/* Meaning of "core" to Slurm: the machine's cores, their threads, or two for each CPU (config_overrides). */
enum fake_cores { FAKE_CORES, FAKE_THREADS, FAKE_TOO_MANY };

struct fake_host {
	enum spank_context context;
	uint32_t job_id;
	uint32_t step_id;
	uint32_t user; /* user id, and group id */
	uint32_t local_tasks;
	uint16_t cpus_per_task;
	uint32_t total_tasks; /* tasks of the step; task i on this node has the number i * task_stride + 1 in it */
	uint32_t task_stride;
	uint32_t task;     /* number on this node of the task whose callbacks are called */
	pid_t task_pid;    /* process of that task, 0: the caller */
	const char *cores; /* cores of job and step */
	enum fake_cores counts;
	char *words[2];     /* the task's command */
	const char *option; /* the option that spank_option_getopt finds, NULL: none */
	char log[8192];     /* all log lines, with newlines */
	int log_to;         /* descriptor that gets the log too, for a process that will not return; 0: none */
	char promoted[256]; /* NAME=VALUE of the last spank_job_control_setenv */
};

extern struct fake_host fake_host;

/* Clears the environment, the log and the option. */
void fake_host_reset(enum spank_context context);

/* Returns the value of a variable of the task's environment, NULL if it is not set. */
const char *fake_host_getenv(const char *name);

/* Loads the plugin anew, with fresh static state. Passes `option` to its callback unless NULL. */
void fake_host_load(const char *plugin, const char *option, int argument_count, char **arguments);

/* Unloads the plugin, as slurmstepd does at its end. */
void fake_host_unload(void);

/* Calls slurm_spank_<hook>; returns its result. */
int fake_host_call(const char *hook, int argument_count, char **arguments);
