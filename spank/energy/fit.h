/*
 * Fit: how many watts a rank costs while it sleeps in MPI, spins in MPI, and computes. Pure.
 *
 * The model, for one package and the intervals between samples: power = sum over states of (ranks in that state x the
 * state's watts) + noise, without a constant: what the package draws when idle is spread over its ranks, alike in each
 * state, so that differences between states are free of it. Ordinary least squares, each interval weighted by its
 * length; noise is taken to be independent between intervals, which real power is not quite. Intervals are the
 * simultaneous 95 % ones of three coefficients (Bonferroni).
 *
 * Where an F-test finds no difference between the states (p < 0.001 is asked), nothing is known.
 */
#pragma once

#include <stdbool.h>

enum fit_state { FIT_ASLEEP, FIT_SPINNING, FIT_COMPUTING, FIT_STATE_COUNT };

/* The normal equations, all that is kept of the samples: so many doubles. */
#define FIT_NUMBERS (2 + FIT_STATE_COUNT * (FIT_STATE_COUNT + 2))
struct fit_sums {
	double samples;
	double xx[FIT_STATE_COUNT][FIT_STATE_COUNT];
	double xy[FIT_STATE_COUNT];
	double yy;
	double rank_s[FIT_STATE_COUNT]; /* rank-seconds, of intervals that were no sample too */
};

struct fit_value {
	bool known;
	double value;
	double plus_minus;
};

struct fit {
	bool known;
	const char *why;                         /* where it is not: "too few samples", ... */
	struct fit_value watts[FIT_STATE_COUNT]; /* of one rank; a state that hardly occurred has none */
	struct fit_value waiting_j;              /* what all waiting took, asleep or spinning */
	struct fit_value saved_j;                /* had they spun while they slept, it would have been so much more */
	struct fit_value could_save_j;           /* had they slept while they spun, it would have been so much less */
};

/* Adds an interval of that many seconds, in which so many joules went and the ranks spent rank_s in each state. */
void fit_add(struct fit_sums *sums, double seconds, double joules, const double rank_s[FIT_STATE_COUNT]);

/* Adds the samples of one step to those of others. */
void fit_merge(struct fit_sums *sums, const struct fit_sums *other);

void fit_solve(const struct fit_sums *sums, struct fit *ret_fit);
