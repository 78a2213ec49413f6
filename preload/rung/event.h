/*
 * Event: decides if a rank may rely on being woken by its message. Pure: takes the end of each sleep, and returns a
 * verdict.
 *
 * Invariant: wake-ups are trusted only after EVENT_PROVEN of them in this process. A message that neither ended a sleep
 * nor was signalled after it counts against them far more than a wake-up counts for them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define EVENT_PROVEN 8u

/* How a sleep ended. */
enum event_end {
	EVENT_NONE,    /* no sleep */
	EVENT_WOKEN,   /* the descriptor ended it */
	EVENT_TIMEOUT, /* the clock ended it, and the descriptor stayed quiet */
	EVENT_LOST,    /* did not begin: the message that the sleep before missed is still not signalled */
	EVENT_BUSY,    /* did not begin: UCX must be polled first */
	EVENT_SIGNAL,  /* a signal ended it, which tells nothing */
	EVENT_BROKEN   /* UCX refused, or a worker wakes nobody */
};

/* Trust in wake-ups so far. Zeros at first. */
struct event_trust {
	uint32_t wakes;   /* wake-ups after which a poll found something */
	uint32_t strikes; /* see event_learn */
	uint32_t busy;    /* refusals in a row after which polls found nothing */
	bool given_up;    /* permanently */
};

/* Returns true if a sleep may last longer than the budget, because the message ends it. */
static inline bool event_is_trusted(const struct event_trust *trust)
{
	return !trust->given_up && trust->wakes >= EVENT_PROVEN && trust->strikes < 32;
}

/*
 * Learns how a sleep ended, and if the poll after it found something. A lost wake-up makes 16 strikes, a wake-up for
 * nothing one; a wake-up that found something takes one back. A timeout after which a poll found something is not lost
 * yet: the sender signals after the message becomes visible, and the next sleep tells. Events are given up permanently
 * after 64 strikes, at a broken worker, or after 4096 refusals in a row without proof. Returns true if this call gave
 * them up.
 */
bool event_learn(struct event_trust *trust, enum event_end end, bool found);

/*
 * Returns true at every 16th refusal in a row, when the rung is to be benched. UCX refuses as long as it has work in
 * progress that only polls complete.
 */
static inline bool event_is_refused(const struct event_trust *trust)
{
	return trust->busy > 0 && trust->busy % 16 == 0;
}
