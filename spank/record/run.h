/*
 * Run: which run of a job a node's record is of. Pure.
 *
 * A requeued job runs several times under one id. From Slurm 24.11 on the prolog is told which time it is, on nodes
 * that have one; else only the user's environment says so. So what is of one run is found by its times: a run does not
 * overlap with the one before, and the nodes of one run do. The nodes' clocks must be right to seconds.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct job_run {
	double start_s;
	double end_s;
	bool timeless; /* the node learnt of the job at its end only */
	bool known;    /* count is Slurm's */
	uint32_t count;
};

/* From a node's record, or what run_to_json made. Returns whether it says so. */
bool run_read(const json_t *json, struct job_run *ret_run);

/* NULL: no memory. */
json_t *run_to_json(const struct job_run *run);

/* Whether both can be of one run. */
bool run_is_same(const struct job_run *a, const struct job_run *b);
