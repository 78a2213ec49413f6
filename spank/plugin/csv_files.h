/*
 * The files of csv= of one step on one node, in slurmstepd: when they are written, as whom and where, and what became
 * of them. They are there before Slurm tells srun that the node's last task has ended, unless a rank is still alive
 * then.
 */
#pragma once

#include <stdatomic.h>

#include "spank/plugin/job.h"
#include "spank/plugin/view.h"

/* Zeros, until csv_files_begin. */
struct csv_files {
	const char *place; /* csv=DIR as typed, borrowed; NULL: not asked for, or there is no segment */
	struct view *view; /* of the tasks, NULL: none */
	uint32_t tasks_ended;
	atomic_int outcome; /* enum csv_outcome */
};

/* Before the tasks are forked. place is borrowed; the view is the caller's to end. */
void csv_files_begin(struct csv_files *files, const char *place);

/* A task of the node has ended: with the last one the files are written. Waits for ten seconds at most. */
void csv_files_task_ended(struct csv_files *files, const struct job *job, int segment);

/* The step ends, all its processes are dead: writes what is not written yet. */
void csv_files_step_ended(struct csv_files *files, const struct job *job, int segment);
