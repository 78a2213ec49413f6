/*
 * Injection: sets a task's environment. The task finds the library in LD_PRELOAD, MPI_WAIT_CONFIG, and settings for its
 * OpenMP runtime and AddressSanitizer; nothing else of ours, and nothing that an outer step left.
 *
 * The library is named by its path, or, where the task's root directory is a container's or may become one, by an open
 * descriptor of it, which is as good there.
 */
#pragma once

#include <slurm/spank.h>
#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/cpufreq/grant.h"
#include "spank/plugin/job.h"
#include "spank/plugin/notes.h"
#include "spank/policy/policy.h"

#define INJECT_NAME_MAX       32
#define INJECT_CSV_SUFFIX_MAX 288

/*
 * How LD_PRELOAD names the library. A path needs nothing of the processes that the task starts. A descriptor is there
 * for the task's own program, which finds a better name for those that it starts (preload/process/named.h).
 */
enum inject_naming {
	INJECT_PATH,
	INJECT_DESCRIPTOR,
	INJECT_DESCRIPTOR_AT_FIRST /* by the path again from the first process on that finds the library there */
};

/* Made in slurmstepd, and used in each task. */
struct injection {
	char flat[POLICY_FLAT_MAX]; /* the policy's part of MPI_WAIT_CONFIG */
	int library;                /* inject_library_open */
	int segment;                /* -1: none */
	struct notes notes;         /* of processes that do not find the segment, or get no library */
	struct grant *grant;        /* NULL: none */
	bool near;                  /* tell which tasks of the step are on this node */
	bool may_move;              /* a plugin behind ours may put the task into another root */
	enum site_threads threads;  /* what OpenMP runtimes are told (openmp.h) */
	uint64_t spins;             /* the bound in turns of GNU's loop */
	const char *csv_place;      /* csv=DIR as typed, borrowed; NULL: not asked for, or there is no segment */
	char csv_suffix[INJECT_CSV_SUFFIX_MAX]; /* JOB.STEP.NODE */
};

/* In slurmstepd, whose root is the host's: a descriptor of the library, close-on-exec; -1: there is none. */
int inject_library_open(const char *path);

/*
 * In the task: returns INJECT_DESCRIPTOR where path cannot be read from here, as in a container that another plugin has
 * entered, and where command, the task's first word, is a container runtime that hands descriptors on.
 */
enum inject_naming inject_naming_choose(const char *path, const char *command, bool may_move);

/*
 * In the task: returns what LD_PRELOAD is to name, path itself or buffer. *naming becomes INJECT_PATH where no
 * descriptor can be handed down. A descriptor that is named stays open in the task and in all that it starts.
 */
const char *inject_library_name(const char *path, int descriptor, enum inject_naming *naming,
                                char buffer[INJECT_NAME_MAX]);

/*
 * To be called in the task itself. Takes our library out of LD_PRELOAD, and away what an outer step of ours has set and
 * nobody has changed since; then, where there is an injection, puts in what it says, and hands the segment down. error
 * says what was left out: the segment, or all of it.
 */
void inject_task(spank_t spank, const struct job *job, const struct injection *injection, struct error *error);
