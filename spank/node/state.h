/*
 * State: what a node knows about a job while it runs, in <root>/<node>/<job id>/ (0700, root).
 *
 * state_job_begin writes job.json when the job begins here, and every sampler tick writes step.<id>.json, so that the
 * epilog finds all but the last interval, whatever is killed. A job's directory stays below 64 MB, whatever its steps
 * claim: the files of steps with ids below 256 have up to 128 KiB, those below 4096 up to 4 KiB; later steps share one
 * file that counts them. If a node has more than 16 jobs, all together get the room of 16. Files have a version; a
 * damaged file or one of another version counts as absent. The only things in them that a user chose are words that
 * options.h parsed and numbers that slots.h bounded.
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
#include "spank/record/parse.h"
#include "spank/record/parts/csv.h"
#include "spank/record/parts/gpus.h"
#include "spank/record/parts/missed.h"

#define STATE_STEP_FILE_MAX (256 * 1024)
#define STATE_STEPS_WHOLE   256  /* steps with smaller ids keep their details */
#define STATE_STEPS_MAX     4096 /* steps with smaller ids keep their sums; later steps are only counted */
#define STATE_WHY_MAX       64
#define STATE_ENDED         "ended" /* the epilog's note in a job's directory (ending.h) */
#define STATE_NAME_MAX      16

/* A job as the node knows it: job.json. */
struct state_job {
	uint32_t job_id;
	uint32_t array_job_id; /* STATE_NONE: not in an array */
	uint32_t array_task_id;
	uint32_t het_job_id; /* STATE_NONE: not in a heterogeneous job */
	uint32_t het_offset;
	uint32_t restart_count; /* from the prolog, 0 if Slurm did not tell it; a step's environment is the user's */
	bool restart_known;
	uint32_t uid;
	uint32_t gid;
	uint32_t cores;       /* cores of the job on this node, 0: unknown */
	uint32_t cores_total; /* cores of this node that jobs can have, 0: unknown */
	char cluster[64];
	char nodes[RECORD_NODE_LIST_MAX];
	char cpus[PROCESSORS_TEXT_MAX];   /* CPUs of the job on this node, "0-3,8"; "": unknown */
	char usable[PROCESSORS_TEXT_MAX]; /* CPUs of this node that jobs can have; "": all */
	char words[OPTIONS_TEXT_MAX];     /* the job's own option as given, also "off"; "": the site's default holds */
	struct policy_use policy;         /* the job's policy; asked "": none */
	bool gpus;                        /* Slurm gave the job graphics processors of this node */
	char gpu_list[RECORD_GPUS_LIST_MAX]; /* numbers of these, from slurmd, or RECORD_GPUS_PARTS */
	char sources[SITE_ENERGY_MAX];       /* sources of energy that the site names; "": all */
	bool shared_cores;                   /* the prolog learnt that Slurm may share the job's cores */
	bool alone;                          /* the prolog learnt that Slurm does not share them */
	bool too_late; /* the state was made after the job's end: there is no sample of its begin */
	/* state_job_begin fills in the members below */
	double start_s;                 /* seconds since the epoch */
	uint64_t begun_ns;              /* CLOCK_BOOTTIME, which cannot be set; 0: unknown */
	bool has_baseline;              /* baseline is valid; else energy_why says why not */
	char energy_why[STATE_WHY_MAX]; /* for instance "no powercap zones" */
	struct energy_snapshot baseline;
	struct throttle throttle;
	struct meters meters;
};

/* A step as the node knows it: step.<id>.json. */
struct state_step {
	uint32_t step_id;         /* Slurm's id, also for batch, extern and interactive */
	struct policy_use policy; /* the step's own policy; asked "": none */
	double start_s;
	double end_s; /* time of the last tick */
	bool has_energy;
	struct energy_snapshot from;
	struct energy_snapshot to;
	enum csv_outcome csv;             /* only for writing */
	struct record_missed missed;      /* only for writing */
	const struct power_points *power; /* only for writing; NULL: none */
	const struct saving *saving;      /* only for writing; NULL: none */
};

/* Sets a job's facts to unknown, but for its id. */
void state_job_init(uint32_t job_id, struct state_job *ret_job);

/*
 * Begins a job on this node. job_prolog calls it with `anew`, which replaces an earlier run's state. Every stepd calls
 * it without, in case job_prolog did not run or knew no policy. The first call makes the state, takes the energy
 * baseline and removes state that earlier jobs left; later calls only add missing facts. Returns 0 or -errno, which
 * must not fail the job.
 */
int state_job_begin(const struct run_directory *run_directory, const struct state_job *facts, bool anew,
                    struct error *error);

/* Reads job.json. Returns 0, -ENOENT if there is no state (the job has no policy), -EBADMSG or -errno. */
int state_job_read(const struct run_directory *run_directory, uint32_t job_id, struct state_job *ret_job);

/* As state_job_read, from the job's open directory. */
int state_job_load(int directory, struct state_job *ret_job);

/*
 * Returns the job's number in the name of a directory of the node: "7", or "7.1" for an ended run without a record.
 * Returns 0 for any other name.
 */
uint32_t state_name_job(const char *name);

/* Renames the job's directory to "7.1" or the like, where no other run of the job looks for it. Returns 0 or -errno. */
int state_set_apart(int node, uint32_t job_id);

/* Returns by how much the room of each job must shrink: the number of jobs on the node in units of 16, at least 1. */
uint32_t state_crowd(int node_directory);

/* How much is kept of a step: details, sums, or only its number. */
enum state_step_kind { STATE_STEP_WHOLE, STATE_STEP_SUMS, STATE_STEP_COUNTED };

/*
 * Returns how much is kept of the step with that id on a node with that crowd (state_crowd). batch, extern and
 * interactive steps are kept whole.
 */
enum state_step_kind state_step_kind(uint32_t step_id, uint32_t crowd);

/* Counts one more step that is kept only as a number. To be called once per step. Returns 0 or -errno. */
int state_step_count(int job_directory);

/* Returns the number of counted steps. */
uint32_t state_steps_counted(int job_directory);

/*
 * Writes a step's file. The step's kind must not be STATE_STEP_COUNTED. wait (slots_to_json) loses what there is no
 * room for; wait and grant (grant_to_json) may be NULL. Returns 0 or -errno.
 */
int state_step_write(int job_directory, const struct state_step *step, uint32_t crowd, json_t *wait, json_t *grant);

/* Reads a step's file, but for the members that are only for writing. Returns 0 or -EBADMSG. */
int state_step_from_json(const json_t *json, struct state_step *ret_step);

/*
 * Convert a job to the JSON of job.json (NULL only without memory) and back. state_job_from_json returns 0, -EBADMSG or
 * -ENOMEM.
 */
json_t *state_job_to_json(const struct state_job *job);
int state_job_from_json(const json_t *json, struct state_job *ret_job);

/* Removes the job's state. */
void state_job_remove(const struct run_directory *run_directory, uint32_t job_id);

/*
 * Empties the open directory of a job, and removes its `name` of the node's. The prolog of the job's next run may have
 * renamed it meanwhile, and made another one of that name, which stays. Returns 0 or -errno.
 */
int state_directory_remove(int node, const char *name, int directory);
