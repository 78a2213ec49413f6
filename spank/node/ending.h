/*
 * Ending: what the epilog notes of a job's end on its node, and which jobs have ended there.
 *
 * The epilog waits for no disk: it writes <root>/<node>/<job id>/ended in /run, with the time and the last sample, and
 * renames the directory to <job id>.<n>. From then on no other run of the job finds it, and mpi-wait-node makes the
 * record out of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/base/run_directory.h"
#include "spank/node/state.h"

#define ENDING_NAME_MAX 32

struct ending {
	double end_s; /* since the epoch */
	bool has_sample;
	char why[STATE_WHY_MAX]; /* why there is no sample */
	struct energy_snapshot sample;
	bool has_throttle;
	struct throttle throttle;
	struct meters meters; /* as at the job's begin: with nothing in them where they were not read then */
};

/*
 * Notes that the job has ended on this node. From 256 such jobs on whose records are not made, because the disk hangs
 * or is full, the steps of a job are only counted, and from 4096 on its record is lost, with a message.
 * Returns 1: its record is to be made; 0: there is none to make; or -errno, the state stays.
 */
int ending_note(const struct state_place *place, uint32_t job_id, struct error *error);

/*
 * Reads the note, of a directory by that name: without one, of a job whose epilog was killed or had no memory, what can
 * be told by dates. Returns 0, or -ENOENT: the job has not ended.
 */
int ending_read(int job_directory, const char *name, struct ending *ret_ending);

/* Returns how many jobs on the node have ended whose records are not made. */
size_t ending_count(int node);
