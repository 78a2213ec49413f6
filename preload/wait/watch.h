/*
 * Finds the calls that burn CPU without an idle hook, and marks the rows before whose calls a loop or a sleep may help.
 */
#pragma once

#include "preload/wait/wait.h"

/*
 * The calls of a row that the library watches, for all threads: it reads the clock at their entry and exit. These are
 * the first 16 calls, then one in 32, and under profile every one. After a call that lasted longer than a millisecond
 * without having waited, all calls are watched again until 16 in a row did not. Such calls burn CPU that no idle hook
 * sees.
 */
struct watch {
	uint32_t short_ns; /* a watched call that took no longer teaches nothing more; 0: each one does */
	uint8_t mask;      /* a call whose number has none of these bits is watched */
	uint8_t clean;     /* number of calls in a row that did not burn */
	uint8_t burns;     /* number of calls that burned: used more than a quarter of a CPU, so not asleep */
	uint8_t before; /* PROCESS_PREWAITS or PROCESS_PRESLEEPS: done before these calls, all of which are then looked
	                   at; 0: nothing */
};

extern struct watch watch_table[CALL_ROWS];

/* Begins to watch a call at its entry, besides reading the clock. Returns the mode to leave the call with. */
uint32_t watch_open(struct wait *wait, enum call_row row, uint32_t mode);

/* Learns from a watched call at its exit that it took lasted_ns. */
void watch_learn(struct wait *wait, uint64_t lasted_ns);

/*
 * Offers PROCESS_PREWAITS (prewait.h) or PROCESS_PRESLEEPS (presleep.h) before the calls of that row, should they turn
 * out to burn. Called at start.
 */
void watch_offer(enum call_row row, uint8_t before);

/*
 * Begins what was offered before every call of the row. Does nothing without an offer, or if the policy has no rungs.
 */
void watch_begin(enum call_row row);

/* Ends what is done before the calls of the row: the row has an idle hook after all. */
void watch_end(enum call_row row);
