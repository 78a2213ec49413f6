/*
 * The sums that a job's record is printed from: nodes' records added up, part by part and step by step. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/record/node.h"

struct sum_step {
	char id[16];
	struct policy_use policy;
	uint32_t nodes;
	double start_s;
	double end_s;
	struct sum_waited waited;
	bool has_joules;
	double joules;
	uint32_t place; /* among the steps in order of start, once they are sorted */
};

struct sum {
	double start_s;    /* from the first begin */
	double end_s;      /* to the last end */
	size_t step_count; /* in order of start */
	struct sum_step *step;
	double steps_left_out;
	double steps_summed;
	struct sum_wait wait;
	struct record_grant grant;
	struct record_csv csv;
	struct sum_energy energy;
	struct record_watts watts;
	struct sum_power power;
	struct sum_throttle throttle;
};

/* Adds up count >= 1 nodes, from which names are borrowed. Freed by sum_free. Returns 0 or -ENOMEM. */
int sum_make(const struct record_node *const nodes[], size_t count, struct sum **ret_sum, struct error *error);
void sum_free(struct sum *sum);
