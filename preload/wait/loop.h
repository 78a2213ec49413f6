/*
 * Loops that programs write themselves: while (!flag) MPI_Test(...), and the like with Testall, Testany, Testsome,
 * Iprobe and Improbe.
 *
 * A thread that asks so again and again, from the same few places, in vain, with no work of its own in between, waits.
 * The first LOOP_CALLS such calls in a row cost nothing but their count. In as many more the clock is read at entry and
 * exit: with LOOP_OWN_NS or more between an exit and the next entry the thread has work of its own. After that each
 * entry is an idle poll of a wait, which may spend time as in any other call, and then asks for the program: so what
 * came meanwhile is found at once. The wait ends with a flag that came true, with another MPI call, and with work
 * between two calls: such gaps of more than LOOP_GAPS_NS in all and a LOOP_GAPS_SHARE of the wait so far. Less than
 * that is no work, but the kernel's tick and other interrupts, of some 10 µs each.
 *
 * Invariant: with polls=0 nothing of this is done. What a wait changes in the thread is put back before the program
 * goes on, which may leave its loop without another call. It may look for something else than messages there, too: so
 * no sleep that only a message ends, no lower frequency, and no CPU time is sampled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/wait/wait.h"

#define LOOP_CALLS      64u
#define LOOP_OWN_NS     UINT64_C(2000)
#define LOOP_GAPS_NS    UINT64_C(32000)
#define LOOP_GAPS_SHARE 128
#define LOOP_TIMED      256u           /* what a byte counts */
#define LOOP_EACH_NS    UINT64_C(3000) /* under profile: a round of a loop that takes longer has work in it */

/* Before such a call, which is in no other, from that frame, where polls=1. May spend time. */
void loop_enter(enum call_row row, uintptr_t here);

/* After it, or one that is inside of a blocking call and does not count: whether it was in vain. */
void loop_leave(bool vain);

/* Another call, or none will follow: the wait is over, if there is one. */
void loop_end(struct wait *wait);

/*
 * Under profile, whatever the policy: adds up the time of such loops, by one reading of the clock in LOOP_TIMED.
 * loop_time counts in the least byte of `vain`, since that is one instruction; loop_sample carries.
 */
void loop_sample(struct wait *wait, enum call_row row);

static inline __attribute__((always_inline)) void loop_time(enum call_row row, bool vain)
{
	struct wait *wait = &wait_self;

	if (!vain)
		wait->loop.vain = 0;
	else if (++wait->loop.vain_least == 0)
		loop_sample(wait, row);
}
