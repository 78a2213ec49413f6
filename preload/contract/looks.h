/*
 * Looks: windows of the nodes' clocks in which no rank of the job sleeps in a wait. The windows follow from the clock
 * and from a number that the ranks of a job share. So all ranks find the same windows without a message. Pure.
 *
 * A window of level k lasts for 2^(22+k) ns (4 ms at level 0) and lies in a period of 16 times that. A hash of the
 * period's number says where in the period it begins, so that no program can repeat in step with the windows. A window
 * of level k+1 begins where one of the two windows of level k in its period begins, or earlier if it would outlast the
 * period. So ranks that differ by a level look together for a good part of the time.
 *
 * A window should hold LOOKS_STEPS turns of the program's loop. A call that repeats covers the time of its periods. The
 * level rises while calls whose periods fit LOOKS_STEPS times in a window cover less than half of the time. It falls
 * when calls whose periods fit as often in the next shorter window cover three quarters of it. So a call that comes
 * once in a hundred turns makes no window longer: its period is made of theirs. Each new window halves what is
 * remembered.
 *
 * After two periods of its level a job looks in one window of four. One of four of these looks is strict: nobody sleeps
 * in it in long waits either (budget/plan.h), so that the node's power can be compared (spank/energy/saving.h).
 *
 * A job begins with a look of LOOKS_FIRST_NS, twice as long with each level up to 5: about ten turns, so that their
 * periods are known soon. Until then naps are short and charged by the clock, and the first window of a level may come
 * as late as its period. Without that, 64 ranks kept 14 percent of the CPU time of 150 waits of 5 ms, and with it 8
 * (emulated). Longer turns have as many behind them before the level has risen so far: their first look stays short.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LOOKS_WINDOW_SHIFT 22
#define LOOKS_PERIOD_SHIFT 26 /* a window of 2^22 ns in 2^26 ns is a sixteenth of the time */
#define LOOKS_STEADY_SHIFT 2  /* a steady job looks in a quarter of the windows */
#define LOOKS_LEVELS       10u
#define LOOKS_STEPS        4u
#define LOOKS_YOUNG        2u /* windows at the start in which a job looks always; periods after which it is steady */
#define LOOKS_FIRST_NS     ((uint64_t)LOOKS_YOUNG << LOOKS_WINDOW_SHIFT)

/* The window that is open now, or the next one. Times are those of the clock that waits are measured with. */
struct looks {
	uint64_t seed;      /* number that all ranks of the job share */
	uint64_t opened_ns; /* when the job began; it looks from then on, for longer the higher the level (above) */
	uint64_t from_ns;   /* when the window begins */
	uint64_t until_ns;  /* when the window ends */
	uint64_t number;    /* number of the period in which the window lies, the same in all ranks */
	bool strict;        /* true if nobody sleeps in the window, in long waits either */
	uint64_t since_ns;  /* when the covered time began to count; 0: it has not begun */
	uint64_t covered_ns[LOOKS_LEVELS + 1];    /* by level: time that calls cover whose periods fit in its windows */
	uint64_t covered_to_ns[LOOKS_LEVELS + 1]; /* by level: end of the latest period that covered some */
	uint32_t level;
};

void looks_open(struct looks *looks, uint64_t seed, uint64_t now_ns);

/*
 * Finds the next window if the present one is over. now_ns is the time by the clock of waits, real_ns the same time by
 * the node's clock. Returns true if the window is another one now.
 */
bool looks_find(struct looks *looks, uint64_t now_ns, uint64_t real_ns);

static inline bool looks_at(const struct looks *looks, uint64_t now_ns)
{
	return now_ns - looks->opened_ns < LOOKS_FIRST_NS << (looks->level <= 5 ? looks->level : 0) ||
	       (now_ns >= looks->from_ns && now_ns < looks->until_ns);
}

/* Returns how long a window lasts. */
static inline uint64_t looks_window_ns(const struct looks *looks)
{
	return UINT64_C(1) << (LOOKS_WINDOW_SHIFT + looks->level);
}

/*
 * Returns how often a window sees a period that long whole, as a part of how often it sees the usual one, at most 1:
 * both of its ends must lie in the window.
 */
static inline double looks_seen_part(double period_ns, double usual_ns, double window_ns)
{
	if (period_ns <= usual_ns || window_ns <= usual_ns)
		return 1;
	return period_ns < window_ns ? (window_ns - period_ns) / (window_ns - usual_ns) : 0;
}

/* Returns a number, not 0, that another process needs beside the seed to find the same windows. */
uint32_t looks_tell(const struct looks *looks, uint64_t now_ns);

/*
 * Sets looks to what a thread has told by looks_tell. looks_find, called for now_ns, then finds the window that is
 * open, or the next one. Returns false if told is no such number; told may be anybody's claim.
 */
bool looks_follow(struct looks *looks, uint64_t seed, uint64_t told, uint64_t now_ns);

/*
 * Learns the period with which a call that waited repeats, and that such periods filled the last passed_ns. Moves the
 * level by one at most (above).
 */
void looks_step(struct looks *looks, uint64_t period_ns, uint64_t passed_ns, uint64_t now_ns);
