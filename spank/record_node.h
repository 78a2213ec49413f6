/*
 * A node's record, parsed: every number bounded, every string checked. Pure.
 *
 * It is hostile input: it has been on a file system that others may share, and part of it was a claim from the start.
 */
#ifndef MPIWAIT_SPANK_RECORD_NODE_H
#define MPIWAIT_SPANK_RECORD_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/stats.h"
#include "spank/error.h"
#include "spank/policy.h"
#include "spank/rapl.h"
#include "spank/record_csv.h"
#include "spank/record_grant.h"
#include "spank/record_power.h"
#include "spank/record_watts.h"
#include "spank/run.h"
#include "spank/service.h"
#include "spank/throttle.h"

#define RECORD_NODE_NAME_MAX  64
#define RECORD_NODE_CALL_MAX  48
#define RECORD_NODE_NONE      UINT32_MAX
#define RECORD_NODE_STEPS_MAX 4096

struct record_rank {
	int32_t rank; /* -1: not known */
	uint64_t wait_us;
	uint64_t asleep_us;
};

struct record_call {
	char name[RECORD_NODE_CALL_MAX]; /* "MPI_Recv" or "other" */
	uint64_t calls;
	uint64_t waits;
	uint64_t wait_us;
	uint64_t longest_us;
};

struct record_energy {
	bool present;
	bool simulated;
	uint32_t gaps;
	bool has[RAPL_KIND_COUNT];
	double zone_j[RAPL_KIND_COUNT];
	bool has_own; /* else the part of the cores holds */
	double own_j;
	json_t *dropped; /* [[zone, why], ...]; NULL: none */
};

struct record_wait {
	size_t rank_count;
	struct record_rank *rank;
	uint64_t omitted; /* ranks that are not listed, with their sums and extremes */
	struct record_rank omitted_sum;
	struct record_rank omitted_min;
	struct record_rank omitted_max;
	uint64_t size; /* of the world */
	uint64_t unseen;
	uint64_t doubtful; /* ranks of which a number was out of range */
	uint64_t span_us;
	uint64_t naps;
	uint64_t low_us;
	uint64_t transitions;
	uint64_t late;
	uint64_t late_us;
	uint64_t sampled_us;
	uint64_t sampled_cpu_us;
	size_t call_count;
	struct record_call *call;
	char *profile; /* checked, as text, a tenth of the value's size; NULL: none */
	uint64_t place_bytes[MPIWAIT_PLACES];
	struct service service;
};

struct record_step {
	char id[16];
	struct policy_use policy; /* asked "": the job's */
	double start_s;
	double end_s;
	struct record_energy energy;
	struct record_grant grant;
	struct record_csv csv;
	struct record_wait wait;
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
	struct job_run run;
	uint32_t gid;
	const char *nodes; /* the job's node list, borrowed from the JSON value: who frees that puts a copy here */
	struct policy_use policy;
	double start_s;
	double end_s;
	double cores; /* 0: not known */
	double cores_total;
	struct record_energy energy;
	char energy_why[65];
	struct record_watts watts;
	struct record_power power;
	bool has_throttle;
	uint64_t throttle[THROTTLE_KIND_COUNT];
	uint64_t steps_left_out;
	uint64_t steps_summed; /* that have lost details */
	size_t step_count;
	struct record_step *step;
};

/*
 * Parses one node's record. *ret_node is freed by record_node_free; only its node list is borrowed from json. Returns
 * 0, -EINVAL with the field that is wrong, or -ENOMEM.
 */
int record_node_parse(const json_t *json, struct record_node **ret_node, struct error *error);
void record_node_free(struct record_node *node);

#endif
