/*
 * The sums that a job's record is printed from: nodes' records added up, step by step and rank by rank. Pure.
 */
#ifndef MPIWAIT_SPANK_RECORD_SUM_H
#define MPIWAIT_SPANK_RECORD_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/stats.h"
#include "spank/error.h"
#include "spank/profile.h"
#include "spank/record_node.h"
#include "spank/record_power.h"
#include "spank/service.h"

struct sum_rank {
	int32_t rank;
	uint32_t node; /* index of the node */
	uint32_t step; /* index in sum.step */
	double wait_s;
	double asleep_s;
};

struct sum_call {
	char name[48];
	double calls;
	double waits;
	double wait_s;
	double longest_s;
};

struct sum_step {
	char id[16];
	struct policy_use policy;
	uint32_t nodes;
	double ranks;
	double start_s;
	double end_s;
	double wait_s;
	bool has_joules;
	double joules;
	uint32_t place; /* among the steps in order of start, once they are sorted */
};

struct sum {
	size_t step_count; /* in order of start */
	struct sum_step *step;
	size_t rank_count; /* step after step, each by rank; by rank alone where the whole world is there just once */
	struct sum_rank *rank;
	size_t call_count; /* most waiting first */
	struct sum_call call[MPIWAIT_CALLS + 2];
	struct profile *profile;
	double place_bytes[MPIWAIT_PLACES];
	double omitted; /* ranks that are in the sums but not in the list */
	double total_s, asleep_s, span_s, naps, late, late_s, sampled_s, sampled_cpu_s, unseen, doubtful, world;
	struct sum_rank min, max;
	struct service service;
	double low_s, transitions; /* as the ranks say */
	struct record_grant grant; /* as root says */
	struct record_csv csv;
	double steps_left_out;
	double steps_summed;
	/* energy */
	uint32_t energy_nodes; /* nodes whose energy is in the sums */
	bool share;            /* some node was not wholly the job's */
	bool simulated;
	double joules;
	double node_joules;
	double gaps;
	struct record_watts watts;
	struct sum_power power;
	uint32_t throttle_nodes; /* nodes that have the counters */
	double throttle[THROTTLE_KIND_COUNT];
	uint32_t throttle_most; /* index of the node with most events, if there are any */
	double throttle_most_events;
	bool has[RAPL_KIND_COUNT];
	double zone_j[RAPL_KIND_COUNT];
};

/* Adds up count >= 1 nodes. Freed by sum_free. Returns 0 or -ENOMEM. */
int sum_make(const struct record_node *const nodes[], size_t count, struct sum **ret_sum, struct error *error);
void sum_free(struct sum *sum);

#endif
