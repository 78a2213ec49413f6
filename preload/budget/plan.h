/*
 * The plan of one wait: what a thread does until its call ends, by forecast, look and account. Pure: the clock, the
 * polls and the sleeping are others' (wait/act.c, and the emulator of whole jobs).
 *
 *     the call waits ...                                            ends
 *     |--polls--|------------- one nap -------------|--polls--------|
 *               began                               landing         earliest end that is known
 *                                                   |<-- margin --->|
 *
 * A call may do work in between: pass a message on, move data. A runtime may say so, at a sign of progress. The end
 * that a nap aims at is that of the last silence of the call that was long enough to sleep in, so that what comes
 * behind it is served. A runtime that says nothing has one silence for each call.
 *
 * In a look nothing sleeps; but a wait that is known to last for 2 ms or more may be slept in for fifteen sixteenths of
 * the shortest that is known. So it is with a call after two late ends. No nap lasts into a look.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/account.h"
#include "preload/budget/forecast.h"
#include "preload/contract/looks.h"
#include "preload/contract/stats.h"

/* The plan of one thread. plan_start sets all of it. */
struct plan {
	struct forecast *forecast; /* NULL: nothing is forecast, and nothing measured */
	struct mpiwait_lane *lane;
	struct account account;
	struct looks looks;
	bool forecasts;        /* the open call may be forecast */
	bool slept;            /* in the open call, by forecast */
	uint64_t look;         /* the look that the open call began in; 0: none */
	uint64_t silent_ns;    /* since when there has been no sign of progress */
	uint64_t ended_ns;     /* the end of the latest long silence; 0: there was none */
	uint64_t landing_ns;   /* that the next nap aims at; where the answer was to poll, that moment; 0: none */
	uint64_t aimed_ns;     /* the end that the latest nap by forecast aimed at */
	uint64_t outlasted_ns; /* the latest end that did not come: the wait is to be taken to last since then; 0: all
	                          may */
	uint64_t empty_ns;     /* the last empty poll before the latest nap; 0: it is known that nothing came in it */
	uint64_t landed_ns;    /* when the latest nap by forecast ended; 0: there was none */
	uint64_t woke_ns;      /* when the latest nap ended ... */
	uint64_t over_ns;      /* ... and how much later than asked */
};

enum plan_advice {
	PLAN_LOOK,   /* poll: nobody sleeps now */
	PLAN_LANDED, /* poll: the end is near, or overdue since outlasted_ns */
	PLAN_NAP,    /* sleep for so long */
	PLAN_LADDER, /* nothing is known, or no known end is to come: climb the ladder */
};

/* The advice for one moment of a wait. */
struct plan_step {
	enum plan_advice advice;
	uint64_t ask_ns;  /* PLAN_NAP: how long */
	uint64_t left_ns; /* until the landing */
};

/* seed: the same for all ranks of the job. forecast: NULL, or all zero but for its ranks. */
void plan_start(struct plan *plan, struct forecast *forecast, struct mpiwait_lane *lane, uint64_t seed,
                uint64_t slowdown_ppm, uint64_t now_ns);

/* A call begins to wait, with that number among the calls of its function: its first empty poll was at now_ns, which is
 * real_ns by the node's clock. */
void plan_open(struct plan *plan, uint64_t site, uint32_t number, bool forecasts, uint64_t now_ns, uint64_t real_ns);

/* The runtime made progress between last_ns, the last empty poll or the end of a nap after it, and now_ns. */
void plan_progress(struct plan *plan, uint64_t last_ns, uint64_t now_ns);

/* As many empty polls as it takes: nothing came in the latest nap. */
static inline void plan_quiet(struct plan *plan)
{
	plan->empty_ns = 0;
}

/* Advises after an empty poll. most_ns: how long a nap may last; 0: any time. */
struct plan_step plan_ask(struct plan *plan, uint64_t now_ns, uint64_t most_ns);

/* Whether something may be done that costs so much if a message comes meanwhile. */
bool plan_may(const struct plan *plan, uint64_t now_ns, uint64_t cost_ns);

/* The end of a nap: when the ladder said, when the forecast said, or with the message. */
enum plan_end { PLAN_BY_LADDER, PLAN_BY_FORECAST, PLAN_BY_MESSAGE };

/* A nap that is over. */
struct plan_nap {
	enum plan_end end;
	uint64_t began_ns; /* the last empty poll; of one that a message ended: when that came, at the earliest */
	uint64_t ask_ns;
	uint64_t woke_ns;
	bool shared; /* others had the core meanwhile: that it ended late is not the kernel's doing */
	bool alike;  /* naps by forecast take the same rung: it teaches how late they end */
};

void plan_woke(struct plan *plan, struct plan_nap nap);

/* Whether the open call may have ended during its nap, if it ended at ended_ns. */
bool plan_is_late(const struct plan *plan, uint64_t ended_ns);

/* The call has ended; last_ns: the last empty poll, or the end of a nap after it. */
void plan_close(struct plan *plan, uint64_t last_ns);

/* Learns nothing from the open call: the process was stopped, or the clock jumped. */
void plan_drop(struct plan *plan);
