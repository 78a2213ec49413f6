/*
 * Ending: the epilog's note of a job's end on its node, and the list of jobs that have ended there.
 *
 * The epilog waits for no disk. It writes <root>/<node>/<job id>/ended in /run, with the time and the last sample, and
 * renames the directory to <job id>.<n>. From then on no other run of the job finds it, and mpi-wait-node makes the
 * record from it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/base/run_directory.h"
#include "spank/node/state.h"

#define ENDING_NAME_MAX 32

/* The epilog's note. */
struct ending {
	double end_s;   /* seconds since the epoch */
	double start_s; /* when the job began, by the clock as it is at the end; 0: unknown */
	bool has_sample;
	char why[STATE_WHY_MAX]; /* reason if has_sample is false */
	struct energy_snapshot sample;
	bool has_throttle;
	struct throttle throttle;
	struct meters meters; /* meters at the job's end; empty if they were not read at its begin */
};

/*
 * Notes that the job has ended on this node. Records can pile up here if the disk hangs or is full: from 256 waiting
 * records on only the number of a job's steps is kept, from 4096 on its record is dropped with an error. Returns 1 if a
 * record is to be made, also if an epilog noted the end before; 0 if there is none to make; or -errno, after which the
 * state stays.
 */
int ending_note(const struct run_directory *run_directory, uint32_t job_id, struct error *error);

/*
 * Returns true if an epilog noted the end of a run of the job in the last hour, and the run had a prolog or a step
 * here. slurmctld has an epilog run again if it did not hear that it was done, and slurmd does so after two minutes: it
 * takes the job for an unknown one then. The job's next run has a state, by a prolog or a step of its own, before its
 * epilog asks.
 */
bool ending_is_noted(const struct run_directory *run_directory, uint32_t job_id);

/*
 * Reads the note of a job. `name` is its directory's name. If the epilog was killed or had no memory to write the note,
 * the end is taken from the file dates. Returns 0, or -ENOENT if the job has not ended.
 */
int ending_read(int job_directory, const char *name, struct ending *ret_ending);

/* Returns the number of jobs on the node that have ended and have no record yet. */
size_t ending_count(int node);
