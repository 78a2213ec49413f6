#include "preload/rung/slack.h"

#include <sys/prctl.h>

#define LOWERED_NS 1
#define LONG       2 /* times the slack: a sleep that long keeps the slack */

/* Returns the thread's slack; 0: unknown, or none. */
static uint64_t slack_get(void)
{
	int slack_ns = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);

	return slack_ns > 0 ? (uint64_t)slack_ns : 0;
}

/* Restores the slack after a jump out of a sleep, unless the program has set it since. */
static void slack_repair(struct slack *slack)
{
	if (slack->is_lowered && slack_get() == LOWERED_NS)
		slack_close(slack);
	slack->is_lowered = false;
}

uint64_t slack_open(struct slack *slack, uint64_t ask_ns)
{
	slack_repair(slack);
	/* Read again before it is written: code within a wait (a reduction's operator) may have set it. */
	if (!slack->is_known || ask_ns < LONG * slack->own_ns)
		slack->own_ns = slack_get();
	slack->is_known = true;
	if (ask_ns >= LONG * slack->own_ns)
		return ask_ns - slack->own_ns;
	slack->is_lowered = true;
	prctl(PR_SET_TIMERSLACK, (unsigned long)LOWERED_NS, 0UL, 0UL, 0UL);
	return ask_ns;
}

void slack_close(struct slack *slack)
{
	if (!slack->is_lowered)
		return;
	prctl(PR_SET_TIMERSLACK, (unsigned long)slack->own_ns, 0UL, 0UL, 0UL);
	slack->is_lowered = false;
}

void slack_forget(struct slack *slack)
{
	slack_repair(slack);
	slack->is_known = false;
}
