/*
 * The ladder: how long may a wait look away, and by which rung?
 *
 * A wait that has lasted w may be prolonged by the budget
 *
 *     B(w) = 0                                   while w < spin
 *            min(relative * w + absolute, max)   after that, where max grows with long waits: it is w / 128 once that
 *                                                is more than the policy's, and at most four times that
 *
 * Invariant: what is asked for plus the rung's measured exit latency never exceeds B(w), and the exit latency alone
 * never exceeds half of it. One exception: a rung that has proven that the message ends it is late by its exit latency
 * alone, whatever it was asked for. It is taken once w >= spin, and w is at least that exit latency (spinning for as
 * long as waking takes is at most twice what the best choice costs). Pure: elapsed time, policy and measurements in,
 * action out; no clock, no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"

#define LADDER_LONG_SHARE 128u
#define LADDER_LONG_MOST  4u

/*
 * More of absolute and max where ranks share their cores and an MPI library polls dearly: one that does so until a nap
 * fits into w / 16 keeps the core from those that it waits for, and gets it back late as well.
 */
#define LADDER_SHARED_NS 60000u

struct ladder_policy {
	uint32_t rungs; /* bit per enum mpiwait_rung: allowed, and possible on this node */
	uint64_t spin_ns;
	uint64_t relative_ppm;
	uint64_t absolute_ns;
	uint64_t max_ns;
};

/* What is known of one rung's exit latency. */
struct ladder_latency {
	bool timed;        /* it asks for a time, so it can be late */
	bool holds_core;   /* nobody else gets the core meanwhile */
	bool woken;        /* the message ends it */
	uint64_t exit_ns;  /* running 90th percentile of (actual - asked); where the core is shared, the 10th */
	uint64_t most_ns;  /* it cannot be asked for more, 0: for anything */
	uint64_t back_ns;  /* resting until then; 0: in use */
	uint64_t retry_ns; /* too slow for its budgets until then; 0: not so */
	uint32_t strikes;  /* see ladder_learn */
	uint32_t rests;    /* in a row: each is twice as long */
};

struct ladder {
	struct ladder_latency rung[MPIWAIT_RUNG_COUNT];
};

struct ladder_action {
	enum mpiwait_rung rung;
	uint64_t ask_ns;    /* how long to doze; 0 for rungs that take no time */
	uint64_t budget_ns; /* B(w): what is later than this is late */
	bool shared;        /* somebody else may have had the core meanwhile, and after */
};

/* A moment of a wait, at which it is asked what to do. */
struct ladder_moment {
	uint64_t now_ns;
	uint64_t waited_ns; /* w: since the call was entered, or since the last sign of progress in it */
	uint64_t cap_ns;    /* of the budget, for this call; UINT64_MAX: none of its own */
	bool shared;        /* somebody else may want this core */
	uint64_t woken_ns;  /* how long a rung may sleep that the message ends: proven; 0: as any other */
	bool locked;        /* other threads wait for a lock meanwhile: no rung below yield */
};

/* What is known of the time between two idle calls of a thread, apart for those after a doze: on cold caches. */
struct ladder_usual {
	uint64_t ns;  /* running 25th percentile */
	uint32_t far; /* bit per gap, the latest lowest: far above the usual */
};

struct ladder_pace {
	struct ladder_usual polled, dozed;
	uint32_t near;    /* bit per gap of either kind, the latest lowest: well above the usual */
	uint64_t held_ns; /* until then the runtime may be at work: no doze */
	uint32_t signs;   /* gaps well above the usual since that began */
};

enum ladder_sign { LADDER_QUIET, LADDER_GAP, LADDER_PROGRESS };

/*
 * Learns that gap_ns lay between two idle calls, the second of them at now_ns; the first dozed or not. A gap well above
 * the usual is a LADDER_GAP: it may be an interrupt, or the runtime at work though it does not say so; better poll once
 * more. With the second such gap within four, or the second far above the usual within 32, the runtime is taken to be
 * at work: no doze for 50 us. Another gap in these begins them anew, and the next is LADDER_PROGRESS: so does the wait
 * then. (A transfer in small pieces works at every second or third poll; one in a hundred idle polls is well above the
 * usual, and three in a hundred after a doze. Three interrupts in a row cost 100 us of polls so, and not the
 * milliseconds that a new wait polls before its first nap.) Gaps hardly teach: a transfer in which every poll works
 * must not come to look like waiting.
 *
 * Whether the thread ran in a gap is not asked. Where cores are shared, others have them while it yields or naps, which
 * is in no gap: of 1087 restarts that gaps caused in waits of 50 ms there, it was off its core in 12.
 */
enum ladder_sign ladder_gap(struct ladder_pace *pace, bool dozed, uint64_t now_ns, uint64_t gap_ns);

/* B(w) under this policy. Saturates instead of overflowing. */
uint64_t ladder_budget(const struct ladder_policy *policy, uint64_t waited_ns);

/*
 * What to do now: the deepest rung that fits the budget. A rung whose rest is over is taken back into use, and so is,
 * after as long, one that fitted no budget although such a rung on probation would. Otherwise pause, or yield where
 * the core is shared: there, spinning keeps away the very process that is waited for, and so do rungs that hold the
 * core.
 */
struct ladder_action ladder_next(struct ladder *ladder, const struct ladder_policy *policy,
                                 struct ladder_moment moment);

/*
 * Learns that the action took actual_ns and ended at now_ns. Moves the percentile. A rung that is late by more than
 * the budget, so often that this is no accident (more than one in nine), rests for 10 ms, then 20 ms, up to 1.28 s;
 * after that it is on probation: half the strikes, and an exit latency of at most a quarter of the largest budget,
 * until measured again.
 *
 * Where the core is shared, most of what comes after the time that was asked for is the time until it is free again.
 * A thread that yields waits for that as well, and has kept it busy before: so it is no latency of the rung, and no
 * strike. There the 10th percentile tells what the rung itself takes.
 *
 * Returns by how much the action was late, 0: not at all.
 */
uint64_t ladder_learn(struct ladder *ladder, struct ladder_action action, uint64_t actual_ns, uint64_t now_ns);
