/*
 * Slack: sleeps that end on time despite the thread's timer slack (prctl(2); 50 us by default, more than most naps).
 * They keep the slack itself, which is the program's setting, and what its threads and children inherit.
 *
 * The kernel ends a sleep between the time asked for and the slack after it, mostly at the end of that span. Therefore
 * a long sleep asks for less, by the slack; the slack is lowered only for a short one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* State of a thread. All zero: nothing is known or changed. */
struct slack {
	uint64_t own_ns; /* the thread's own slack, valid if is_known */
	bool is_known;
	bool is_lowered;
};

/*
 * Returns the time to ask the kernel for, to sleep ask_ns. After the sleep, slack_close must follow. A signal handler
 * that jumps out of the sleep leaves that to the next slack_open or slack_forget. errno may change.
 */
uint64_t slack_open(struct slack *slack, uint64_t ask_ns);

/* Restores the slack that slack_open lowered. */
void slack_close(struct slack *slack);

/* Forgets the slack at the end of a wait: the program may change it from here on. */
void slack_forget(struct slack *slack);
