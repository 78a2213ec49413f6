/*
 * Finds the calls that burn CPU without an idle hook, and marks the rows before whose calls a loop or a sleep may help.
 */
#pragma once

#include "preload/wait/wait.h"

/*
 * How closely the calls of a row are looked at, by all threads. The first 16, then one in 32, and every one under
 * profile; all again once a call lasted longer than a millisecond without having waited, until 16 in a row did not:
 * such calls burn CPU that no idle hook sees.
 */
struct watch {
	uint32_t short_ns; /* calls that took no longer are looked at no further; 0: all are */
	uint8_t mask;      /* a call whose number has none of these bits is looked at */
	uint8_t clean;     /* calls in a row that did not burn */
	uint8_t burns;     /* calls that did, on more than a quarter of a CPU: not asleep */
	uint8_t before; /* PROCESS_PREWAITS or PROCESS_PRESLEEPS: what is done before these calls, every one of which is
	                   looked at; 0: nothing */
};

extern struct watch watch_table[CALL_ROWS];

/* What there is to do besides the clock, at entry: returns the mode to leave the call with; and at exit. */
uint32_t watch_open(struct wait *wait, enum call_row row, uint32_t mode);
void watch_learn(struct wait *wait, uint64_t lasted_ns);

/* At start: that may be done before the calls of that row, should it turn out that they burn: PROCESS_PREWAITS
 * (prewait.h) or PROCESS_PRESLEEPS (presleep.h). */
void watch_offer(enum call_row row, uint8_t before);

/* From now on that is done before every call of the row, if something was offered and the policy has rungs. */
void watch_begin(enum call_row row);

/* The calls of the row have an idle hook after all: nothing is done before them any more. */
void watch_end(enum call_row row);
