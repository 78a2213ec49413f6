/*
 * Looks: windows of the nodes' clocks in which no rank of the job sleeps in a wait. All ranks come to the same windows
 * without a message, because these follow from the clock and from a number that the ranks of a job share. Pure.
 *
 * A window of level k lasts for 2^(22+k) ns (4 ms at level 0) and lies in a period of 16 times that. Its place in the
 * period is a hash of the period's number, so that no period of a program keeps step with it. A window of level k + 1
 * begins where one of the two windows of level k in its period begins, unless it would outlast the period: ranks that
 * differ by a level look together for a good part of the time. A window holds LOOKS_STEPS steps of the job: the level
 * rises with the longest period that a call repeats with, and falls when no call has had that for two periods.
 *
 * After two periods of its level a job looks in one window of four.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LOOKS_WINDOW_SHIFT 22
#define LOOKS_PERIOD_SHIFT 26 /* a sixteenth of the time */
#define LOOKS_STEADY_SHIFT 2  /* of that a quarter */
#define LOOKS_LEVELS       10u
#define LOOKS_STEPS        4u
#define LOOKS_FIRST_NS     (UINT64_C(2) << LOOKS_WINDOW_SHIFT) /* a job looks at first */
#define LOOKS_YOUNG        2u                                  /* periods in which a job looks in each window */

/* The window that is open now, or the next one. Times are those of the clock that waits are measured with. */
struct looks {
	uint64_t seed;      /* the same in all ranks of the job */
	uint64_t opened_ns; /* the job began; it looks for LOOKS_FIRST_NS */
	uint64_t from_ns;   /* the window begins */
	uint64_t until_ns;  /* the window ends */
	uint64_t number;    /* of the period that it lies in: the same for all ranks */
	uint64_t raised_ns; /* when a call had a period that this level is for, ... */
	uint64_t period_ns; /* ... and that period */
	uint32_t level;
};

void looks_open(struct looks *looks, uint64_t seed, uint64_t now_ns);

/*
 * Finds the next window if the present one is over. The time is now_ns, and real_ns by the node's clock. Returns
 * whether there is another window now.
 */
bool looks_find(struct looks *looks, uint64_t now_ns, uint64_t real_ns);

static inline bool looks_at(const struct looks *looks, uint64_t now_ns)
{
	return now_ns - looks->opened_ns < LOOKS_FIRST_NS || (now_ns >= looks->from_ns && now_ns < looks->until_ns);
}

/* The time of four windows. */
static inline uint64_t looks_turn_ns(const struct looks *looks)
{
	return UINT64_C(1) << (LOOKS_WINDOW_SHIFT + 2 + looks->level);
}

/* Returns what another process must know, beside the seed, to find the same windows: a number that is not 0. */
uint32_t looks_tell(const struct looks *looks, uint64_t now_ns);

/*
 * Sets looks to what a thread has told, whoever wrote that: looks_find, called for now_ns, finds the window that is
 * open then, or the next one. Returns false if told is no such number.
 */
bool looks_follow(struct looks *looks, uint64_t seed, uint64_t told, uint64_t now_ns);

/* A call that waited repeats with that period. */
void looks_step(struct looks *looks, uint64_t period_ns, uint64_t now_ns);
