/*
 * A node's record: what one node knows of one job, parsed: {"v": 1, "kind": "node", "node": ..., the job's ids, its
 * parts, "steps": [...]}. Every number is bounded and every string checked. Pure.
 *
 * The input is hostile: others may write to the file system that it lay on, and part of it was a user's claim from the
 * start.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/policy/policy.h"
#include "spank/record/parts/csv.h"
#include "spank/record/parts/energy.h"
#include "spank/record/parts/gpus.h"
#include "spank/record/parts/grant.h"
#include "spank/record/parts/meters.h"
#include "spank/record/parts/missed.h"
#include "spank/record/parts/power.h"
#include "spank/record/parts/saving.h"
#include "spank/record/parts/throttle.h"
#include "spank/record/waits/wait.h"

#define NODE_RECORD_MAX          (4 * 1024 * 1024) /* bytes */
#define RECORD_NODE_NAME_MAX     64
#define RECORD_NODE_LIST_MAX     (128 * 1024) /* bytes of a node list; Linux takes no longer environment variable */
#define RECORD_NODE_LEFT_OUT_MAX 256
#define RECORD_NODE_NONE         UINT32_MAX
#define RECORD_NODE_TIME_MAX     1e11 /* seconds since the epoch */
#define RECORD_NODE_STEPS_MAX    4096

/*
 * Identifies the run of a job that a node's record belongs to. A requeued job runs several times under one id. From
 * Slurm 24.11 on Slurm tells the prolog which run it is; without a prolog, only the user's environment says so.
 * Therefore runs are told apart by their times: two runs of a job do not overlap, and the nodes of one run do. This
 * needs clocks that are right to a few seconds.
 */
struct job_run {
	double start_s;
	double end_s;
	bool timeless; /* the node learnt of the job only at its end */
	bool known;    /* count comes from Slurm, not from the user's environment */
	uint32_t count;
	int64_t uid; /* owner of the job; negative: unknown */
};

/* One step on one node, or the sum of it over the job's nodes. */
struct record_step {
	char id[16];
	struct policy_use policy; /* the step's own policy; asked "": the job's holds */
	double start_s;
	double end_s;
	bool has_joules;
	double joules;             /* energy of the job during the step */
	struct record_ranks ranks; /* in a job's sum: without the list of ranks */
	uint32_t nodes;
	uint32_t index; /* order of arrival; in the finished record how many steps waited longer */
};

/* A parsed record of one node; in a job's merge the sum of several. */
struct record_node {
	char node[RECORD_NODE_NAME_MAX];
	char cluster[64];
	uint32_t job_id;
	uint32_t array_job_id; /* RECORD_NODE_NONE: not in an array */
	uint32_t array_task_id;
	uint32_t het_job_id;
	uint32_t het_offset;
	uint32_t restart_count;
	struct job_run run; /* the run, from start_s to end_s */
	uint32_t gid;
	const char *nodes; /* the job's node list, borrowed from the JSON; to be copied before that is freed */
	struct policy_use policy;
	double start_s;
	double end_s;
	uint32_t cores; /* cores of the job on this node; 0: unknown */
	uint32_t cores_total;
	struct record_energy energy;
	char energy_why[65];
	struct record_gpus gpus;
	struct record_meters meters;
	struct record_power power;
	struct record_saving saving;
	struct record_throttle throttle;
	uint64_t steps_left_out;
	uint64_t steps_summed; /* number of steps that lost details */
	size_t step_count;
	struct record_step *step;
	struct record_wait wait;                 /* sum over all steps */
	struct record_grant grant;               /* sum over all steps */
	struct record_csv csv;                   /* sum over all steps */
	struct record_missed missed;             /* sum over all steps */
	char left_out[RECORD_NODE_LEFT_OUT_MAX]; /* names of the malformed parts, which count as absent */
};

/*
 * Parses one node's record. Only a record without a valid identity or time is refused. Any other part that no node
 * writes so counts as absent and is named in left_out. The caller frees *ret_node with record_node_free; its node list
 * is borrowed from `json`. Returns 0, -EINVAL with the field that is wrong, or -ENOMEM.
 */
int record_node_parse(const json_t *json, struct record_node **ret_node, struct error *error);

/* Frees the node. NULL: does nothing. */
void record_node_free(struct record_node *node);

/* Returns the part of the node's energy that is the job's by its cores, 0 to 1; negative: unknown. */
double record_node_share(const struct record_node *node);

/*
 * Returns the most bytes that a node's record may have in a job of `nodes` nodes: an equal part of 256 MiB, from 64 KiB
 * to NODE_RECORD_MAX.
 */
size_t node_short_most(uint32_t nodes);

/*
 * Prints the record. While it has more than `most` bytes, takes details from its steps, then drops the last steps, and
 * counts both in the record. The text is the caller's to free; NULL only without memory.
 */
char *node_short_print(json_t *record, size_t most);

/* Reads the run from a node's record or from the result of run_to_json. Returns false if it has none. */
bool run_read(const json_t *json, struct job_run *ret_run);

/* Returns the run as JSON, or NULL without memory. */
json_t *run_to_json(const struct job_run *run);

/*
 * Returns true if both can belong to one run of one job. The owner and the times decide. The job's number and the count
 * prove nothing: both repeat after MaxJobId, or after slurmctld lost its state.
 */
bool run_is_same(const struct job_run *a, const struct job_run *b);
