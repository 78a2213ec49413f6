/*
 * Sampler: one thread per slurmstepd that updates the energy accumulator and the step's file, and reads the counters
 * around looks of the ranks (saving_feed.h).
 *
 * The thread reads, computes and renames small files under /run. On nodes where Intel's GPUs were read at a job's
 * begin, it starts the meters' reader once a minute (meters_keep). It forks nothing else, sends nothing, takes no
 * signal, and opens everything else before it starts. After sampler_stop it is gone, so that the plugin may be
 * unloaded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/base/error.h"
#include "spank/node/state.h"
#include "spank/policy/choices.h"

/* Configuration of a sampler. Copied, but for the objects that its pointers lead to. */
struct sampler_config {
	struct run_directory run_directory;
	uint32_t job_id;
	uint32_t step_id;
	struct policy_use policy; /* the step's own policy; asked "": none */
	/* The policies from which ranks choose, which outlive the sampler; NULL: none. */
	const struct choices *choices;
	bool is_unnoted; /* the step is under "off", and leaves nothing unless a rank chooses another policy */
	int segment;     /* stats segment, duplicated; -1: none */
	bool fast;       /* sample every second, as under profile */
	/* Returns the step's "grant" (a new reference), NULL for none. NULL: no grant. */
	json_t *(*grant_read)(void *context);
	/* grant_read's argument, which outlives the sampler */
	void *grant_context;
	bool csv; /* the ranks were asked for the files of csv= */
	/* The step's page of notes, which outlives the sampler; NULL: none. */
	const struct mpiwait_notes *notes;
};

struct sampler;

/*
 * Starts a step's sampler: takes its first energy sample, writes its file and starts the thread. The job's state must
 * exist (state_job_begin). Without powercap zones the waits are still recorded. Returns 0 or -errno.
 */
int sampler_start(const struct sampler_config *config, struct sampler **ret_sampler, struct error *error);

/*
 * Ends a step's sampler: wakes the thread, which takes the last sample and writes the step's file, joins it, and frees.
 * NULL: does nothing.
 */
void sampler_stop(struct sampler *sampler);
