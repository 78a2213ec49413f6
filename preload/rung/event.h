/*
 * Whether a rank may rely on being woken by its message. Pure: what became of each sleep in, verdict out.
 *
 * Invariant: nothing is trusted that has not woken this process EVENT_PROVEN times, and each message that ended no
 * sleep and was not signalled after it either counts against it far more than a wake-up counts in favour.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define EVENT_PROVEN 8u

/* How a sleep ended. */
enum event_end {
	EVENT_NONE,    /* there was none */
	EVENT_WOKEN,   /* by the descriptor */
	EVENT_TIMEOUT, /* by the clock, and the descriptor was quiet after that too */
	EVENT_LOST,    /* it did not begin: what the one before it missed has not been signalled since either */
	EVENT_BUSY,    /* it did not begin: UCX wants to be polled first */
	EVENT_SIGNAL,  /* says nothing */
	EVENT_BROKEN   /* UCX refused, or has a worker that wakes nobody */
};

struct event_trust {
	uint32_t wakes;   /* that found something */
	uint32_t strikes; /* see event_learn */
	uint32_t busy;    /* refusals in a row without anything found */
	bool given_up;    /* for good */
};

/* Whether a sleep may last longer than the budget, because the message ends it. */
static inline bool event_is_trusted(const struct event_trust *trust)
{
	return !trust->given_up && trust->wakes >= EVENT_PROVEN && trust->strikes < 32;
}

/*
 * Learns how a sleep ended, and whether the poll after it found something. A lost wake-up: 16 strikes; one for nothing:
 * one; one with something to find takes one back. A timeout with something to find is not lost yet: the sender signals
 * after the message can be seen, so the next sleep tells. 64 strikes, one broken worker, or 4096 refusals in a row of
 * one that has not proven itself end it for good. Returns whether it has just ended.
 */
bool event_learn(struct event_trust *trust, enum event_end end, bool found);

/*
 * Whether to let it be for a while: every 16th refusal in a row. UCX refuses as long as it has something under way that
 * only polls bring forward.
 */
static inline bool event_is_refused(const struct event_trust *trust)
{
	return trust->busy > 0 && trust->busy % 16 == 0;
}
