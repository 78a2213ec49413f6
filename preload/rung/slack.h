/*
 * Sleeps that end on time whatever the thread's timer slack is (prctl(2); 50 microseconds by default, more than most
 * naps), and leave it as it is: the program's own setting, and what its threads and children inherit.
 *
 * The kernel ends a sleep between the time that was asked for and the slack after it, mostly at the end of that span.
 * So a long sleep asks for less, by the slack; only around a short one is the slack lowered.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Per thread. All zero: nothing is known or changed. */
struct slack {
	uint64_t own_ns; /* the thread's own slack, while is_known */
	bool is_known;
	bool is_lowered;
};

/*
 * Before a sleep of ask_ns: returns what to ask the kernel for. Each call is followed by slack_close, after the sleep;
 * a signal handler that jumps out of the sleep leaves that to the next slack_open or slack_forget. errno may change.
 */
uint64_t slack_open(struct slack *slack, uint64_t ask_ns);
void slack_close(struct slack *slack);

/* At the end of a wait: the program may change its slack from here on. */
void slack_forget(struct slack *slack);
