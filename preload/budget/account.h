/*
 * The account of a job: what its ranks' sleeping costs it, as measured, and how much it may. Pure: times in, decisions
 * out. Each thread that waits keeps one; all of them measure the same job.
 *
 * The measure: a call that repeats has a period, the time from one of its ends to the next. The periods of calls
 * in which sleeping was allowed, less those of calls in looks (contract/looks.h), in which no rank slept, are what
 * sleeping costs, whichever rank's nap it was. Each period is cut at a quarter beside what is usual, so that a hiccup
 * of the machine counts little. So rare naps that end later than that cost more than what is measured. A call slept in
 * is charged at once against the looks before it. The next look corrects that: half of the change from one look to the
 * next belongs to the program, up to all that was charged. Calls that repeat at the same time measure the same loss, so
 * it is divided by how many there are.
 *
 * The law: at each time T after the opening,
 *
 *     measured loss  <=  start + slowdown * T + its own error        (the allowance: contract/allowance.h)
 *
 * since nobody sleeps while it is more. What is not spent is kept up to a limit. Calls of which no periods are known
 * yet are charged by the clock: a nap in which something arrived may have cost its whole length, and no more. Such a
 * nap lasts no longer than the rest that is left. That is the hard cap, which needs no statistics. A nap of a call
 * whose periods are known lasts no longer than what may be kept. What passes in a pause is not charged.
 *
 * Where sleeping does not pay, it is given up soon and tried again rarely. Each try may lose little: half a
 * millisecond, and half of what slowdown allows in its time. A loss beyond that begins a pause, in which nobody sleeps.
 * All ranks end it at the same moment of their nodes' clocks: when the number of the turn (four windows of the looks)
 * becomes a multiple of 1, of 4 if that try failed as well, and so on up to 4096. So a hiccup of the machine costs a
 * short pause.
 *
 * A program may go on with steps that are several times as long, or as short. Three periods in a row that are cut to
 * the same side begin a pause as well. If three periods in that pause differ from the usual one too, no nap is the
 * cause: what is usual begins anew, what those in a row were charged is taken back, and the pause is over. A loss that
 * is less than two standard errors may be an error of the measure: the pause that it begins counts as a look.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/allowance.h"

#define ACCOUNT_KEPT_NS 10000000.0
#define ACCOUNT_KNOWN   3u  /* periods tell what is usual */
#define ACCOUNT_SAMPLES 16u /* periods that are kept of one look */
#define ACCOUNT_CUT     4   /* of the usual period: what a period may count beside it */

struct account {
	uint64_t opened_ns;
	uint64_t slowdown_ppm; /* 0: there is no account */
	double spent_ns;       /* measured loss, and what the clock charged */
	double variance;       /* of the measured loss, fading, in square nanoseconds */
	double error_ns;       /* its root */
	bool paused;           /* nobody sleeps */
	bool unsure;           /* the loss that began the pause may be an error of the measure */
	uint32_t pause; /* so many turns lie between two moments at which a pause may end; 1 at least while paused */
	uint64_t paused_ns;  /* when it began */
	uint64_t resumed_ns; /* when the latest pause ended */
	double tried_ns;     /* what had been spent when the latest pause ended */
	double covered_ns;   /* periods that were charged, and the time that they are of: fading */
	uint64_t since_ns;
	/* Sums since the opening, which the record tells. */
	double slept_ns, more_ns, variance_sum;
	uint64_t windows; /* looks that calls were compared with */
	uint64_t latest;  /* of these */
};

/* The periods of one kind of call. All zero: none is known. */
struct account_periods {
	double usual_ns;   /* in looks */
	double variance;   /* of one period, in square nanoseconds */
	float weight;      /* how many periods usual_ns is the mean of, fading */
	double charged_ns; /* since the latest look */
	uint32_t slept;    /* calls charged since the latest look */
	int32_t strayed;   /* of these, the latest in a row that were cut: above the usual, or less than 0 below it */
	uint32_t count;    /* samples */
	uint64_t window;   /* the look that they are of; UINT64_MAX: a pause */
	float sample[ACCOUNT_SAMPLES];
};

void account_open(struct account *account, uint64_t now_ns, uint64_t slowdown_ppm);

/* Returns how much may be lost by now: the allowance. */
double account_allowed(const struct account *account, uint64_t now_ns);

/* How much may be lost now: a nap of a call that is not compared lasts no longer. 0: nobody sleeps. */
uint64_t account_room(const struct account *account, uint64_t now_ns);

/* Whether the periods are known well enough to charge calls against them. */
static inline bool account_knows(const struct account_periods *periods)
{
	return periods->weight >= ACCOUNT_KNOWN;
}

/* A call of that kind ended in the look with that number, as the one before it did: its period. */
void account_looked(struct account *account, struct account_periods *periods, uint64_t window, uint64_t period_ns,
                    uint64_t now_ns);

/* Returns true if so many periods in a row were cut, to the same side, that the program may have changed. */
static inline bool account_strayed(const struct account_periods *periods)
{
	return periods->strayed >= (int32_t)ACCOUNT_KNOWN || periods->strayed <= -(int32_t)ACCOUNT_KNOWN;
}

/* Returns true if a pause is to tell whether the program or its naps have changed the periods. */
static inline bool account_doubts(const struct account *account, const struct account_periods *periods)
{
	return account->paused && (account->unsure || account_strayed(periods));
}

/*
 * A call of that kind ended in a pause that account_doubts, as the one before it did: its period. Returns true if the
 * program has changed: what is usual begins anew, and the pause is over.
 */
bool account_relearned(struct account *account, struct account_periods *periods, uint64_t period_ns, uint64_t now_ns);

/* The same outside of looks, of so many periods in all. Does nothing where nothing is known to compare them with. */
void account_slept(struct account *account, struct account_periods *periods, uint64_t passed_ns, uint32_t many,
                   uint64_t now_ns);

/* Returns true if the latest try has lost less than a quarter of what it may. */
bool account_is_cheap(const struct account *account, uint64_t now_ns);

/* Something arrived in a nap of so long, in a call that is not compared. That is no loss of the try. */
void account_charge(struct account *account, uint64_t nap_ns);

/* Called once for each look. What was not spent fades beyond its limit, and so does the error. */
void account_settle(struct account *account, uint64_t now_ns);

/*
 * Ends the pause if its time is over: at now_ns, which is real_ns by the node's clock. A turn lasts for turn_ns, the
 * same in all ranks of the job.
 */
void account_resume(struct account *account, uint64_t turn_ns, uint64_t now_ns, uint64_t real_ns);
