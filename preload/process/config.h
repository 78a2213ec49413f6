/*
 * The one environment variable that makes the library act: the resolved policy, and where the stats segment is.
 *
 * Root's side writes MPI_WAIT_CONFIG, since spank/policy/policy.c is the only parser of policies. The text is flat, so
 * that the program's half needs no JSON: fields KEY=VALUE, separated by ';', in any order, each at most once, with
 * decimal numbers; "v" comes first. An unknown key, a bad number or another version makes the library inert.
 *
 *     v=1                      format
 *     rungs=pause+nap          rungs that may be used, by the names below; "none": measure only
 *     spin_ns=20000            no budget before this much of a wait (B(w) = 0)
 *     relative_ppm=62500       B(w) = min(relative * w + absolute, max), see ladder.h
 *     absolute_ns=0
 *     max_ns=100000
 *     rma_ns=10000             max inside MPI_Win_lock*, or 1/64 of the wait if that is more; if below max_ns
 *     event_ns=10000000        optional: the longest sleep that a message ends; default 10 ms
 *     slowdown_ppm=10000       optional: part of its time that a rank may be late in all, see account.h. Nothing is
 *                              forecast without it, or with an MPI that does not tell its progress
 *     shared=0|1               the task shares its cores: the spin phase yields really; MPICH: 60 us more of budget
 *     ibarrier=0|1             optional: an Ibarrier before some collectives, see prewait.h
 *     polls=0|1                optional: sleep in the program's own loops that only ask, see loop.h
 *     sites=0|1                optional: tell waits apart by the program's call site, see wait/site.h
 *     profile=0|1              read the clock at entry and exit of every call too
 *     tsc_khz=2600000          optional: ticks per millisecond of a TSC that is fit to be the clock
 *     umwait_max_ns=38000      optional: the operating system's limit for TPAUSE, 0: none
 *     umwait_c02=0|1           optional: the operating system allows C0.2
 *     segment=FD:DEV:INO       optional: the inherited memfd, and its device and inode (inherited.h)
 *     task=PID                 with segment: the task that was given FD (/proc/PID/fd/FD leads back to it)
 *     notes=ID:KEY             optional: the step's page of notes (preload/notes.h)
 *     pstate_after_ns=5000000  pstate: a wait that has lasted this long goes on at the lowest frequency
 *     cpufreq=lease:FD:DEV:INO pstate, optional: the inherited board of answers (lease.h)
 *     path=0|1                 optional: LD_PRELOAD may name the library by its path from now on, see named.h
 *     near=16:4:4-7,12         optional: the number of the step's tasks, this task's number, and the tasks on its node:
 *                              profile tells bytes within nodes from those between nodes. Only for task's PID
 *
 * Without tsc_khz the clock is the kernel's, and umwait and mwaitx are not used. Without cpufreq or pstate_after_ns
 * pstate is not used.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/stats.h"

#define MPIWAIT_CONFIG_VARIABLE "MPI_WAIT_CONFIG"

#define CONFIG_NEAR_MAX 128 /* most ranges of tasks */

#define CONFIG_RUNG_BYTES 16

struct config_range {
	uint32_t first, last;
};

struct config_near {
	uint32_t size; /* number of the step's tasks, 0: unknown */
	uint32_t rank;
	uint32_t ranges;
	struct config_range range[CONFIG_NEAR_MAX];
};

/* The parsed variable; members are its fields. */
struct config {
	uint32_t rungs; /* bit per enum mpiwait_rung */
	uint64_t spin_ns;
	uint64_t relative_ppm;
	uint64_t absolute_ns;
	uint64_t max_ns;
	uint64_t rma_ns;
	uint64_t event_ns;
	uint64_t slowdown_ppm; /* 0: no account */
	bool shared;
	bool profile;
	bool ibarrier;
	bool polls;
	bool sites;
	bool path;
	bool umwait_c02;
	uint64_t tsc_khz; /* 0: the clock is the kernel's */
	uint64_t umwait_max_ns;
	int segment_fd; /* -1: none */
	uint64_t segment_dev;
	uint64_t segment_ino;
	int32_t task_pid;
	int notes_id; /* -1: none */
	uint64_t notes_key;
	uint64_t pstate_after_ns; /* 0: never */
	int cpufreq_fd;           /* -1: none */
	uint64_t cpufreq_dev;
	uint64_t cpufreq_ino;
	struct config_near near;
};

/* Names of the rungs here and in policies, also of those that this release lacks; by enum mpiwait_rung. */
extern const char config_rung_names[MPIWAIT_RUNG_COUNT][CONFIG_RUNG_BYTES];

/*
 * Parses the value of MPI_WAIT_CONFIG into *ret_config. Neither allocates nor touches errno.
 * Returns 0, or -EINVAL with *ret_config untouched.
 */
int config_parse(const char *text, struct config *ret_config);
