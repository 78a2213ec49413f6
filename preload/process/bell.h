/*
 * The bell: by it a thread that wants a lock of the MPI library ends the nap of the thread that holds it.
 *
 * Invariant: who wants the lock never waits for the end of a nap, only until the napping thread has woken. The one that
 * naps first says so, and then looks whether somebody wants a lock: if so, it does not sleep. The one that did not get
 * a lock first says so, and then looks whether somebody naps: if so, it rings. All four are in one order for all
 * threads, so at least one of both sees the other. One thread of the process naps so at a time: a second one would
 * hold another lock, and its end would hide the first.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Of the process; all zero at first. All atomic. */
struct bell {
	uint32_t nap;       /* futex: the number of the nap that goes on, 0: none */
	uint32_t naps;      /* begun so far, counted by twos */
	uint32_t wanting;   /* threads that wait for a lock */
	uint32_t wanted;    /* how often one had to; wraps */
	uint64_t rung_ns;   /* when it was rung last */
	uint64_t answer_ns; /* how long it takes until who is rung for is awake: the mean */
} __attribute__((aligned(128)));

extern struct bell bell;

/* How a nap ended. */
enum bell_end {
	BELL_SLEPT,  /* by the clock, or a signal */
	BELL_RUNG,   /* by another thread */
	BELL_WANTED, /* it did not begin */
};

/* Sleeps for so long at most. */
enum bell_end bell_sleep(const struct timespec *told);

/*
 * Of who was rung for, once it is awake: for how long the other thread has waited for that. Never more than slept_ns,
 * what was slept in all.
 */
uint64_t bell_answered(uint64_t now_ns, uint64_t slept_ns);

/* For so long nobody must have wanted a lock until the next nap begins: then no more than 1/64 of it goes to waking. */
uint64_t bell_rest_ns(void);

/* Around a wait for a lock. Keeps errno. */
void bell_want(void);
void bell_have(void);

/* Whether somebody waits for a lock now. */
static inline bool bell_is_wanted(void)
{
	return __atomic_load_n(&bell.wanting, __ATOMIC_RELAXED) != 0;
}
