/*
 * A node's record: what one node knows of one job, {"v": 1, "kind": "node", "node": ..., the job's ids, its parts,
 * "steps": [...]}, parsed: every number bounded, every string checked. Pure.
 *
 * It is hostile input: it has been on a file system that others may share, and part of it was a claim from the start.
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
#define RECORD_NODE_LIST_MAX     (128 * 1024) /* bytes of a node list, all that Linux takes as an environment variable */
#define RECORD_NODE_LEFT_OUT_MAX 256
#define RECORD_NODE_NONE         UINT32_MAX
#define RECORD_NODE_TIME_MAX     1e11 /* seconds since the epoch */
#define RECORD_NODE_STEPS_MAX    4096

/*
 * Which run of a job a node's record is of. A requeued job runs several times under one id. From Slurm 24.11 on the
 * prolog is told which time it is, on nodes that have one; else only the user's environment says so. So what is of one
 * run is found by its times: a run does not overlap with the one before, and the nodes of one run do. The nodes' clocks
 * must be right to seconds.
 */
struct job_run {
	double start_s;
	double end_s;
	bool timeless; /* the node learnt of the job at its end only */
	bool known;    /* count is Slurm's */
	uint32_t count;
	int64_t uid; /* the job's owner; negative: not said */
};

/* Of one node, or summed over a job's. */
struct record_step {
	char id[16];
	struct policy_use policy; /* asked "": the job's */
	double start_s;
	double end_s;
	bool has_joules;
	double joules;             /* the job's in that time */
	struct record_ranks ranks; /* summed without their list */
	uint32_t nodes;
	uint32_t index; /* in order of arrival, in the end by how long their ranks have waited */
};

struct record_node {
	char node[RECORD_NODE_NAME_MAX];
	char cluster[64];
	uint32_t job_id;
	uint32_t array_job_id; /* RECORD_NODE_NONE: none */
	uint32_t array_task_id;
	uint32_t het_job_id;
	uint32_t het_offset;
	uint32_t restart_count;
	struct job_run run; /* start_s to end_s */
	uint32_t gid;
	const char *nodes; /* the job's node list, borrowed from the JSON value: who frees that puts a copy here */
	struct policy_use policy;
	double start_s;
	double end_s;
	uint32_t cores; /* 0: not known */
	uint32_t cores_total;
	struct record_energy energy;
	char energy_why[65];
	struct record_gpus gpus;
	struct record_meters meters;
	struct record_power power;
	struct record_saving saving;
	struct record_throttle throttle;
	uint64_t steps_left_out;
	uint64_t steps_summed; /* that have lost details */
	size_t step_count;
	struct record_step *step;
	struct record_wait wait; /* of all steps, as are the next three */
	struct record_grant grant;
	struct record_csv csv;
	struct record_missed missed;
	char left_out[RECORD_NODE_LEFT_OUT_MAX]; /* names of parts that count as absent, since no node writes them so */
};

/*
 * Parses one node's record. Only who and when it is of can be refused; any other part that is no good counts as absent
 * and is named in left_out. *ret_node is freed by record_node_free; only its node list is borrowed from json. Returns
 * 0, -EINVAL with the field that is wrong, or -ENOMEM.
 */
int record_node_parse(const json_t *json, struct record_node **ret_node, struct error *error);
void record_node_free(struct record_node *node);

/* How much of the node's energy is the job's, by its cores; negative: not known. */
double record_node_share(const struct record_node *node);

/* How long the record of one of so many nodes may be: a part of 256 MiB, from 64 KiB to NODE_RECORD_MAX. */
size_t node_short_most(uint32_t nodes);

/*
 * Takes details from the steps, then the last steps, until the record is at most so long, and counts what went. The
 * text is the caller's to free. NULL only without memory.
 */
char *node_short_print(json_t *record, size_t most);

/* From a node's record, or what run_to_json made. Returns whether it says so. */
bool run_read(const json_t *json, struct job_run *ret_run);

/* NULL: no memory. */
json_t *run_to_json(const struct job_run *run);

/*
 * Returns true if both can be of one run of one job. Neither the job's number nor the count tells that: both come
 * again, after MaxJobId or where slurmctld has lost its state. The owner and the times do.
 */
bool run_is_same(const struct job_run *a, const struct job_run *b);
