/*
 * An emulation of bulk-synchronous jobs, in virtual time: in each step every rank computes, then all ranks meet in a
 * collective. The real forecast, account and ladder sleep in the waits, and a rank that wakes late starts its next
 * step late. So it tells by how much sleeping makes the job longer, and not a rank.
 *
 * A pattern tells how much each rank computes in a step. A meeting tells who waits for whom: "max" ends for all ranks
 * when the last one has come; "tree" reduces and broadcasts along a binary tree, in which each rank passes on what it
 * has noticed; "ring" waits for two neighbours. A message takes 1.5 us. The nodes' clocks differ by 200 us.
 *
 * A way tells what a rank does in a wait. JOB_BARE polls. JOB_LADDER climbs the ladder, without an account. JOB_TELLING
 * plans each wait, in a runtime that says when it has made progress. JOB_SILENT does so in a runtime that says nothing:
 * there a collective is one wait, whatever it has to pass on in between.
 *
 * The same pattern computes the same work whatever the way, the meeting and the exits are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/budget/ladder.h"
#include "preload/budget/plan.h"

#define JOB_WORK_NS  1000000.0 /* what a pattern calls 1 */
#define JOB_SLOWDOWN 10000u    /* millionths: what the accounts allow */
#define JOB_SEED     4711u     /* of the looks */
#define JOB_DEEP_NS  200000u   /* a long sleep */

enum job_way { JOB_BARE, JOB_LADDER, JOB_TELLING, JOB_SILENT, JOB_WAYS };
enum job_meeting { JOB_MAX, JOB_TREE, JOB_RING, JOB_MEETINGS };

extern const char *const job_way_names[JOB_WAYS], *const job_meeting_names[JOB_MEETINGS];

/*
 * How much later than asked a sleep ends: a lognormal time. One sleep in `tail` ends later than that, exponentially. So
 * does one in 16 of those that last for JOB_DEEP_NS or longer: the core is in a deep idle state then.
 */
struct job_exits {
	double median_us;
	double most_us; /* 99th percentile */
	double tail;    /* 0: none */
	double tail_us; /* mean of what these sleeps take longer */
	double deep_us; /* mean of what one long sleep in 16 takes longer; 0: as short ones */
};

struct job;

struct job_pattern {
	const char *word; /* names it as an argument */
	const char *name;
	double (*work)(struct job *job, int rank, int step); /* in units of JOB_WORK_NS */
};

extern const struct job_pattern job_patterns[];
extern const size_t job_pattern_count;

struct job_rank {
	struct forecast *forecast;
	struct mpiwait_lane *lane;
	struct plan plan;
	struct ladder ladder;
	double now_ns;   /* the rank's virtual time */
	double ready_ns; /* when it passed on what it had, in a tree or a ring */
	double skew_ns;  /* of its node's clock */
	double joins_ns; /* it polls until then */
	uint64_t naps;   /* of all kinds */
	double worst_ns; /* the most that one of them took longer than asked */
};

struct job {
	/* The caller sets these, and clears the others. */
	int ranks, steps;
	const struct job_pattern *pattern;
	enum job_meeting meeting;
	enum job_way way;
	struct job_exits exits;
	double (*joins_ns)(const struct job *job, int rank); /* when a rank joins; NULL: all at once */
	void (*watch)(struct job *job, int step);            /* called after each step; NULL: nothing is */
	/* job_play fills in these. */
	double lasted_ns; /* until the last rank has ended */
	double polled_ns; /* CPU time of all waits */
	double waited_ns; /* clock time of all waits */
	double more_ns;   /* measured loss: sum over the ranks' accounts */
	double slept_ns;  /* the periods that it was measured in */
	double error_ns;  /* standard error of a rank's measured loss, in the mean */
	/* The emulation's own. */
	struct job_rank *rank;
	uint64_t random_state;
};

/* Plays the job. Returns false if there is no memory for it. */
bool job_play(struct job *job);

/* Returns the CPU time of the waits, as a share of what polling takes. */
double job_cpu(const struct job *job);

/* Returns what the ranks' accounts have measured: by which share the periods slept in were longer. */
double job_measured(const struct job *job);

/* Draw from the job's random numbers: more than 0 and at most 1, and a normal one. For patterns. */
double job_unit(struct job *job);
double job_normal(struct job *job);
