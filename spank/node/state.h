/*
 * State: what a node knows about a job while it runs, in <root>/<node>/<job id>/ (0700, root).
 *
 * job.json is written when the job begins here, step.<id>.json by every sampler tick, so that whoever is killed, the
 * epilog finds all but the last interval. However many steps a job has and whatever they claim, its directory stays
 * below 64 MB: a step's file has details up to 128 KiB for the first 256 step ids, and sums up to 4 KiB from then on;
 * from 4096 on there is one file, as long as they are many. On a node with more than 16 jobs their room is 16 jobs'.
 * Files are versioned; one that is damaged or of another version counts as absent. Nothing in them was chosen by a user
 * but words that options.h has parsed and numbers that slots.h has bounded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/base/run_directory.h"
#include "spank/energy/accumulator.h"
#include "spank/energy/meters.h"
#include "spank/energy/power.h"
#include "spank/energy/saving.h"
#include "spank/machine/processors.h"
#include "spank/machine/throttle.h"
#include "spank/policy/options.h"
#include "spank/policy/policy.h"
#include "spank/policy/site.h"
#include "spank/record/node.h"
#include "spank/record/parts/csv.h"
#include "spank/record/parts/gpus.h"
#include "spank/record/parts/missed.h"

#define STATE_STEP_FILE_MAX (256 * 1024)
#define STATE_STEPS_WHOLE   256  /* steps with an id below this are kept with their details, */
#define STATE_STEPS_MAX     4096 /* those below this by their sums, the others by their number */
#define STATE_WHY_MAX       64
#define STATE_ENDED         "ended" /* in a job's directory: the epilog's note (ending.h) */
#define STATE_NAME_MAX      16

struct state_job {
	uint32_t job_id;
	uint32_t array_job_id; /* STATE_NONE: no array */
	uint32_t array_task_id;
	uint32_t het_job_id; /* STATE_NONE: no heterogeneous job */
	uint32_t het_offset;
	uint32_t restart_count; /* as Slurm told the prolog; 0 where it did not. Of a step's environment it is the
	                           user's */
	bool restart_known;
	uint32_t uid;
	uint32_t gid;
	uint32_t cores;       /* the job's on this node, 0: not known */
	uint32_t cores_total; /* those that jobs can have there, 0: not known */
	char cluster[64];
	char nodes[RECORD_NODE_LIST_MAX];
	char cpus[PROCESSORS_TEXT_MAX];   /* the job's on this node, "0-3,8"; "": not known */
	char usable[PROCESSORS_TEXT_MAX]; /* those that jobs can have there; "": all */
	char words[OPTIONS_TEXT_MAX];     /* the job's own option as given, "off" too; "": the site's default holds */
	struct policy_use policy;         /* asked "": none for the whole job */
	bool gpus;                        /* Slurm gave the job some of this node's */
	char gpu_list[RECORD_GPUS_LIST_MAX]; /* their numbers, as slurmd says */
	char sources[SITE_ENERGY_MAX];       /* of energy, as the site says; "": all */
	bool shared_cores; /* Slurm may give the job's cores to another one too: the prolog was told */
	bool alone;        /* Slurm does not: the prolog was told */
	bool too_late;     /* the state was made when the job had ended: a sample is none of its begin */
	/* the rest is filled in by state_job_begin */
	double start_s;                 /* since the epoch */
	uint64_t begun_ns;              /* CLOCK_BOOTTIME, which nobody sets; 0: not noted */
	bool has_baseline;              /* else energy_why */
	char energy_why[STATE_WHY_MAX]; /* "no powercap zones" */
	struct energy_snapshot baseline;
	struct throttle throttle;
	struct meters meters;
};

struct state_step {
	uint32_t step_id;         /* Slurm's, with its numbers for batch, extern and interactive */
	struct policy_use policy; /* asked "": none of its own */
	double start_s;
	double end_s; /* of the last tick */
	bool has_energy;
	struct energy_snapshot from;
	struct energy_snapshot to;
	enum csv_outcome csv;             /* for writing */
	struct record_missed missed;      /* for writing */
	const struct power_points *power; /* for writing, NULL: none */
	const struct saving *saving;      /* the same */
};

/* A job's facts, with nothing known but its id. */
void state_job_init(uint32_t job_id, struct state_job *ret_job);

/*
 * A job begins on this node: anew from job_prolog (what is there is an earlier run's), and from every stepd, in case
 * job_prolog did not run or knew no policy. The first makes the state, takes the energy baseline and sweeps what
 * earlier jobs left; later ones only fill in facts that were not known. Returns 0 or -errno; the job does not care.
 */
int state_job_begin(const struct state_place *place, const struct state_job *facts, bool anew, struct error *error);

/* Reads job.json. Returns 0, -ENOENT (no state: the job has no policy), -EBADMSG or -errno. */
int state_job_read(const struct state_place *place, uint32_t job_id, struct state_job *ret_job);

/* The same of a directory that is open. */
int state_job_load(int directory, struct state_job *ret_job);

/*
 * Returns the job's number that the name of a directory in the node's begins with: "7", or "7.1" for a run that has
 * ended, whose record is not made yet. 0: it is no such name.
 */
uint32_t state_name_job(const char *name);

/* Gives the job's directory a name under which no other run of the job looks for it, "7.1". Returns 0 or -errno. */
int state_set_apart(int node, uint32_t job_id);

/* Returns how many times the room of 16 jobs the node's jobs want, 1 at least. */
uint32_t state_crowd(int node_directory);

/*
 * Returns how much is kept of a step of that id on a node that is so crowded (state_crowd). batch, extern and
 * interactive steps are kept whole.
 */
enum state_step_kind { STATE_STEP_WHOLE, STATE_STEP_SUMS, STATE_STEP_COUNTED };
enum state_step_kind state_step_kind(uint32_t step_id, uint32_t crowd);

/* One more step of which there is no more than that, to be said once. Returns 0 or -errno. */
int state_step_count(int job_directory);

/* How many were said so. */
uint32_t state_steps_counted(int job_directory);

/*
 * Writes the file of a step that is not merely counted; wait (slots_to_json), from which goes what there is no room
 * for, and grant (grant_to_json) may be NULL. Returns 0 or -errno.
 */
int state_step_write(int job_directory, const struct state_step *step, uint32_t crowd, json_t *wait, json_t *grant);

/* From a step's file: what is not for writing alone. Returns 0 or -EBADMSG. */
int state_step_from_json(const json_t *json, struct state_step *ret_step);

json_t *state_job_to_json(const struct state_job *job);
int state_job_from_json(const json_t *json, struct state_job *ret_job);

/* Removes the job's state; or the directory by that name, of the node's. */
void state_job_remove(const struct state_place *place, uint32_t job_id);
void state_directory_remove(int node, const char *name);
