/*
 * Emulates bulk-synchronous jobs in virtual time: in each step every rank computes, then all ranks meet in a
 * collective. The real forecast, account and ladder decide when ranks sleep in the waits, and a rank that wakes late
 * starts its next step late. So the emulation tells by how much sleeping makes the job longer, not just a rank.
 *
 * A pattern tells how much each rank computes in a step. A meeting tells which rank waits for which: "max" ends for all
 * ranks when the last one has come; "tree" reduces and broadcasts along a binary tree, in which each rank passes on
 * what it has noticed; "ring" waits for two neighbours. A message takes 1.5 us. A node has JOB_NODE ranks; the nodes'
 * clocks differ by 200 us. A call is a wait when it has polled for 7 us: the free polls of Allreduce took 0.8 to 10
 * us, 5 in the mean, with six MPIs over shared memory, TCP and libfabric (measured).
 *
 * The machine may hold up a rank while it computes, as a hypervisor or a daemon does, whether ranks sleep or not.
 *
 * A way tells what a rank does in a wait. JOB_BARE polls. JOB_LADDER climbs the ladder, without an account. JOB_TELLING
 * plans each wait, in a runtime that reports progress. JOB_SILENT does so in a runtime that reports none: there a
 * collective is one wait, even if the rank passes data on in between.
 *
 * Steps end in the same call, but for those in which the program writes its output, say.
 *
 * The same pattern and draw compute the same work whatever the way, the meeting and the exits are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/budget/ladder.h"
#include "preload/budget/plan.h"

#define JOB_WORK_NS  1000000.0 /* length of a pattern's work of 1 */
#define JOB_SLOWDOWN 10000u    /* the accounts' allowance, in millionths */
#define JOB_SEED     4711u     /* seed of the looks, beside the job's draw */
#define JOB_DEEP_NS  200000u   /* shortest long sleep */
#define JOB_NODE     16        /* number of ranks on a node */

enum job_way { JOB_BARE, JOB_LADDER, JOB_TELLING, JOB_SILENT, JOB_WAYS };
enum job_meeting { JOB_MAX, JOB_TREE, JOB_RING, JOB_MEETINGS };

extern const char *const job_way_names[JOB_WAYS], *const job_meeting_names[JOB_MEETINGS];

/*
 * How much later than asked a sleep ends: a lognormal time. One sleep in `tail` ends later than that, by an exponential
 * time. So does one in 16 of the sleeps of JOB_DEEP_NS or longer, because the core is then in a deep idle state.
 */
struct job_exits {
	double median_us;
	double most_us; /* 99th percentile */
	double tail;    /* one sleep in this many ends later; 0: none */
	double tail_us; /* mean delay of these sleeps */
	double deep_us; /* mean delay of one long sleep in 16; 0: as for short ones */
};

/*
 * How often the machine holds up a computing rank: so many times in a second of its work, each for an exponential time.
 * One hold-up in 16 is 20 times as long.
 */
struct job_holds {
	double per_s;
	double mean_us;
};

struct job;

struct job_pattern {
	const char *word; /* its name as an argument */
	const char *name;
	double (*work)(struct job *job, int rank, int step); /* returns work in units of JOB_WORK_NS */
};

extern const struct job_pattern job_patterns[];
extern const size_t job_pattern_count;

struct job_rank {
	struct forecast *forecast;
	struct mpiwait_lane *lane;
	struct mpiwait_header *node; /* shared by the ranks of its node */
	struct plan plan;
	struct ladder ladder;
	double now_ns;   /* the rank's virtual time */
	double ready_ns; /* when it passed its data on, in a tree or a ring */
	double skew_ns;  /* offset of its node's clock */
	double joins_ns; /* until then the rank only polls */
	uint64_t naps;   /* naps of all kinds */
	double worst_ns; /* greatest delay of a nap */
};

struct job {
	/* The caller sets these, and clears the others. */
	int ranks, steps;
	unsigned draw; /* jobs with another number have other work, exits and looks by chance */
	const struct job_pattern *pattern;
	enum job_meeting meeting;
	enum job_way way;
	struct job_exits exits;
	struct job_holds holds;
	int output_every; /* one step in so many ends in a call of its own; 0: none does */
	double cold_us;   /* by how much longer all ranks compute in a step after naps: their caches are cold */
	double (*joins_ns)(const struct job *job, int rank); /* returns when a rank joins; NULL: all at once */
	void (*watch)(struct job *job, int step);            /* called after each step; NULL: nothing is called */
	/* job_play fills in these. */
	double lasted_ns; /* time until the last rank has ended */
	double polled_ns; /* CPU time of all waits */
	double waited_ns; /* clock time of all waits */
	double more_ns;   /* measured loss: sum over the ranks' accounts */
	double slept_ns;  /* length of the periods in which the loss was measured */
	double error_ns;  /* mean of the standard errors of the ranks' measured losses */
	uint64_t unpaid;  /* naps that began in a pause of the account, or when it had nothing left */
	/* Internal. */
	struct job_rank *rank;
	uint64_t random_state;
	uint64_t naps; /* sum over the ranks, before the step */
};

/* Plays the job. Returns false if there is no memory for it. */
bool job_play(struct job *job);

/* Returns the CPU time of the waits, as a part of what polling takes. */
double job_cpu(const struct job *job);

/* Returns the measured loss of the ranks' accounts: by which part the periods with sleep were longer. */
double job_measured(const struct job *job);

/* Draw from the job's random numbers, for patterns: a number greater than 0 and at most 1, and a normal one. */
double job_unit(struct job *job);
double job_normal(struct job *job);
