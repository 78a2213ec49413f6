/*
 * The ladder: how long may a waiting thread go without a poll, and by which rung does it spend that time?
 *
 * A wait that has lasted w may be prolonged by the budget
 *
 *     B(w) = 0                                   while w < spin
 *            min(relative * w + absolute, max)   after that, where max grows with long waits: it is w / 128 once that
 *                                                is more than the policy's, and at most four times that
 *
 * Invariant: the time asked for plus the rung's measured exit latency never exceeds B(w), and the exit latency alone
 * never exceeds half of B(w). There is one exception: a rung that has proven that the message ends it is late by its
 * exit latency alone, however long it was asked to sleep. The ladder takes such a rung once w >= spin and w is at least
 * the exit latency (to spin for as long as waking takes costs at most twice the best choice). Pure: elapsed time,
 * policy and measurements go in, an action comes out; no clock, no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"

#define LADDER_LONG_SHARE 128u
#define LADDER_LONG_MOST  4u

/*
 * Added to absolute and max where ranks share their cores and an MPI library polls at a high cost. A thread that polls
 * until a nap fits into w / 16 keeps the core from those that it waits for, and gets the core back late as well.
 */
#define LADDER_SHARED_NS 60000u

struct ladder_policy {
	uint32_t rungs; /* one bit for each enum mpiwait_rung that is allowed, and possible on this node */
	uint64_t spin_ns;
	uint64_t relative_ppm;
	uint64_t absolute_ns;
	uint64_t max_ns;
};

/* The measured exit latency of one rung. */
struct ladder_latency {
	bool timed;        /* true if the rung is asked for a time, and so can be late */
	bool holds_core;   /* true if nobody else gets the core meanwhile */
	bool woken;        /* true if the message ends the sleep */
	uint64_t exit_ns;  /* running 90th percentile of (actual - asked); where the core is shared, the 10th */
	uint64_t most_ns;  /* the longest time that the rung can be asked for; 0: any */
	uint64_t back_ns;  /* when the rung comes back from its bench; 0: in use */
	uint64_t retry_ns; /* when a rung too slow for its budgets is tried again; 0: not too slow */
	uint32_t strikes;  /* weighted count of late dozes; see ladder_learn */
	uint32_t benches;  /* number of benches in a row: each is twice as long */
};

struct ladder {
	struct ladder_latency rung[MPIWAIT_RUNG_COUNT];
};

struct ladder_action {
	enum mpiwait_rung rung;
	uint64_t ask_ns;    /* time to doze; 0 for rungs that take no time */
	uint64_t budget_ns; /* B(w): a doze that takes longer is late */
	bool shared;        /* true if somebody else may have the core meanwhile, and after */
};

/* The moment of a wait at which the ladder chooses. */
struct ladder_moment {
	uint64_t now_ns;
	uint64_t waited_ns; /* w: time since the wait began, or since the last sign of progress in it */
	uint64_t cap_ns;    /* cap on the budget for this call; UINT64_MAX: none */
	bool shared;        /* true if somebody else may want this core */
	uint64_t woken_ns;  /* longest sleep of a rung that the message ends; 0: such a rung is as any other */
	bool locked;        /* true if other threads wait for a lock meanwhile: no rung below yield */
};

/* The usual time between two idle calls of a thread. Gaps after a doze are counted apart: they run on cold caches. */
struct ladder_usual {
	uint64_t ns;  /* running 25th percentile */
	uint32_t far; /* one bit for each gap, the latest lowest: set if far above the usual */
};

struct ladder_pace {
	struct ladder_usual polled, dozed;
	uint32_t near;    /* one bit for each gap of either kind, the latest lowest: set if well above the usual */
	uint64_t held_ns; /* until when the runtime may be at work: no doze */
	uint32_t signs;   /* number of gaps well above the usual since that hold began */
};

enum ladder_sign { LADDER_QUIET, LADDER_GAP, LADDER_PROGRESS };

/*
 * Learns that gap_ns lay between two idle calls, the second of them at now_ns. dozed: the thread dozed after the first.
 * A gap well above the usual is a LADDER_GAP: an interrupt, or the runtime at work without saying so. The caller polls
 * once more before it dozes. The second such gap within four, or the second far above the usual within 32, means that
 * the runtime is at work: no doze for 50 us. Another gap within these 50 us begins them anew, and the next is
 * LADDER_PROGRESS: the wait begins anew as well.
 *
 * A transfer in small pieces works at every second or third poll. One in a hundred idle polls is well above the usual,
 * and three in a hundred after a doze. Three interrupts in a row thus cost 100 us of polls, not the milliseconds that a
 * new wait polls before its first nap. Gaps well above the usual hardly teach: a transfer in which every poll works
 * must not come to look like waiting.
 *
 * The function does not ask if the thread ran in a gap. Where cores are shared, others run while the thread yields or
 * naps, which is in no gap: of 1087 restarts that gaps caused in waits of 50 ms there, the thread was off its core in
 * 12.
 */
enum ladder_sign ladder_gap(struct ladder_pace *pace, bool dozed, uint64_t now_ns, uint64_t gap_ns);

/* Returns B(w) under this policy. Saturates instead of overflowing. */
uint64_t ladder_budget(const struct ladder_policy *policy, uint64_t waited_ns);

/*
 * Chooses the deepest rung that fits the budget. A rung whose bench is over comes back into use on probation. So does,
 * after as long, a rung that fitted no budget although it would on probation. If no rung fits, the choice is to pause,
 * or to yield where the core is shared: there, spinning keeps away the very process that the thread waits for, and so
 * do rungs that hold the core.
 */
struct ladder_action ladder_next(struct ladder *ladder, const struct ladder_policy *policy,
                                 struct ladder_moment moment);

/*
 * Learns that the action took actual_ns and ended at now_ns. Moves the percentile. Each doze that is late by more than
 * its budget is a strike. A rung with too many strikes for an accident (more than one doze in nine) is benched for 10
 * ms, then 20 ms, up to 1.28 s. After that it is on probation, until measured again: half the strikes that bench it,
 * and an exit latency of at most a quarter of the largest budget.
 *
 * Where the core is shared, most of the time beyond the time asked for passes until the core is free again. A thread
 * that yields waits for that as well, and has kept the core busy before. So such time is no latency of the rung, and no
 * strike: the 10th percentile tells what the rung itself takes.
 *
 * Returns by how much the action was late, 0 if it was in time.
 */
uint64_t ladder_learn(struct ladder *ladder, struct ladder_action action, uint64_t actual_ns, uint64_t now_ns);
