/*
 * Injection: sets a task's environment. The task finds the library in LD_PRELOAD, MPI_WAIT_CONFIG, and settings for its
 * OpenMP runtime and AddressSanitizer. It finds nothing else of ours, and nothing that an outer step left.
 *
 * LD_PRELOAD names the library by its path. Where the task's root directory is a container's or may become one, it
 * names an open descriptor of the library instead, which is valid there too.
 */
#pragma once

#include <slurm/spank.h>
#include <stdbool.h>

#include "spank/base/error.h"
#include "spank/cpufreq/grant.h"
#include "spank/plugin/job.h"
#include "spank/plugin/notes.h"
#include "spank/policy/policy.h"
#include "spank/policy/programs.h"

#define INJECT_NAME_MAX       32
#define INJECT_CSV_SUFFIX_MAX 288

/*
 * How LD_PRELOAD names the library. A path holds for all processes that the task starts. A descriptor is meant for the
 * task's own program, which finds a better name for the processes that it starts (preload/process/named.h).
 */
enum inject_naming {
	INJECT_PATH,
	INJECT_DESCRIPTOR,
	INJECT_DESCRIPTOR_AT_FIRST /* the descriptor until a process finds the library at its path */
};

/* The things that a step's tasks are given: made in slurmstepd, used in each task. */
struct injection {
	char flat[POLICY_FLAT_MAX];      /* the policy's part of MPI_WAIT_CONFIG */
	bool acts;                       /* the policy does not leave the task alone */
	bool is_named;                   /* the policy is that of the program which the command line tells */
	char *choices;                   /* last part of MPI_WAIT_CONFIG, from which ranks choose; NULL: none */
	const struct programs *programs; /* with choices: the site's file */
	int library;                     /* descriptor of the library (inject_library_open), -1: none */
	int segment;                     /* descriptor of the stats segment, -1: none */
	struct notes notes;        /* page that counts processes which do not find the segment or get no library */
	struct grant *grant;       /* NULL: none */
	bool near;                 /* tell which tasks of the step are on this node */
	bool may_move;             /* a plugin behind ours may put the task into another root */
	enum site_threads threads; /* how OpenMP runtimes are told to wait (openmp.h) */
	uint64_t spins;            /* bound of the OpenMP wait, in turns of GNU's loop */
	const char *csv_directory; /* csv=DIR as typed, borrowed; NULL: not asked for, or there is no segment */
	char csv_suffix[INJECT_CSV_SUFFIX_MAX]; /* JOB.STEP.NODE */
};

/*
 * Returns a descriptor of the library, close-on-exec, which the caller closes; -1 if it cannot be opened. Called in
 * slurmstepd, whose root directory is the host's.
 */
int inject_library_open(const char *path);

/*
 * Chooses how LD_PRELOAD names the library; called in the task. Returns INJECT_DESCRIPTOR if path cannot be read from
 * here, as in a container that another plugin has entered, or if command, the task's first word, is a container runtime
 * that hands descriptors on.
 */
enum inject_naming inject_naming_choose(const char *path, const char *command, bool may_move);

/*
 * Returns the name for LD_PRELOAD, which is path itself or buffer; called in the task. *naming becomes INJECT_PATH if
 * no descriptor can be handed down. A descriptor that is named stays open in the task and in all processes that it
 * starts.
 */
const char *inject_library_name(const char *path, int descriptor, enum inject_naming *naming,
                                char buffer[INJECT_NAME_MAX]);

/* Why nothing will be preloaded into the task's program. */
enum inject_hindrance { INJECT_NO_HINDRANCE, INJECT_STATIC, INJECT_SETUID, INJECT_HIDDEN };

/*
 * Sets the environment of the task; called in the task itself. Takes our library out of LD_PRELOAD, and removes what an
 * outer step of ours has set and nobody has changed since. Then, if injection is not NULL, sets the variables that it
 * describes and hands the segment down. error names what was left out: the segment, or everything. Returns why the
 * program that the task is about to become will not load the library, as far as that can be told.
 */
enum inject_hindrance inject_task(spank_t spank, const struct job *job, const struct injection *injection,
                                  struct error *error);
