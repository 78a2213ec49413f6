/*
 * Sampler: one thread per slurmstepd that keeps the energy accumulator and the step's file up to date, and reads the
 * counters around looks of the ranks (saving_feed.h).
 *
 * It reads, computes and renames small files under /run; it forks nothing, sends nothing and takes no signal. What it
 * must open it opens before it starts. After sampler_stop it is gone: the plugin may be unloaded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/node/state.h"

struct sampler_config {
	struct state_place place;
	uint32_t job_id;
	uint32_t step_id;
	struct policy_use policy; /* asked "": none of its own */
	int segment;              /* stats segment, borrowed (duplicated); -1: none */
	bool fast;                /* under profile: every second */
	/* What the step's file says of the grant, a new reference, NULL for nothing; and its argument, which outlives
	 * the sampler */
	json_t *(*grant_read)(void *context);
	void *grant_context;
	bool csv; /* the ranks were asked for the files of csv= */
	/* The step's page of notes, which outlives the sampler; NULL: none */
	const struct mpiwait_notes *notes;
};

struct sampler;

/*
 * The step begins: takes its first energy sample, writes its file and starts the thread. The job's state must exist
 * (state_job_begin). Returns 0 or -errno; where there are no powercap zones the waits are still recorded.
 */
int sampler_start(const struct sampler_config *config, struct sampler **ret_sampler, struct error *error);

/* The step ended: stops the thread, waits for it, takes the last sample, writes the step's file, frees. NULL: nothing.
 */
void sampler_stop(struct sampler *sampler);
