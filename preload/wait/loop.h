/*
 * Loops that programs write themselves: while (!flag) MPI_Test(...), and the like with Testall, Testany, Testsome,
 * Iprobe and Improbe.
 *
 * A thread waits if it asks again and again, from the same few callsites, in vain, with no work of its own in between.
 * The first LOOP_CALLS such calls in a row cost nothing but their count. In the next LOOP_CALLS the thread reads the
 * clock at entry and exit: LOOP_OWN_NS or more between an exit and the next entry mean work of its own. After that each
 * entry is an idle poll of a wait. The poll may spend time as in any other call. The program's call itself follows, so
 * that a message that came meanwhile is found at once. The wait ends when a flag comes true, at another MPI call, and
 * with work between two calls. Such work means gaps of more than LOOP_GAPS_NS in all plus 1/LOOP_GAPS_SHARE of the wait
 * so far. Smaller gaps are the kernel's tick and other interrupts, of some 10 µs each.
 *
 * Invariant: with polls=0 none of this is done. The thread undoes what the wait changes in it before the program goes
 * on, since the program may leave its loop without another call. The program may also look for something else than
 * messages. So there is no sleep that only a message ends, no lower frequency, and no sample of CPU time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/wait/wait.h"

#define LOOP_CALLS      64u
#define LOOP_OWN_NS     UINT64_C(2000)
#define LOOP_GAPS_NS    UINT64_C(32000)
#define LOOP_GAPS_SHARE 128
#define LOOP_TIMED      256u           /* number of calls that a byte counts */
#define LOOP_EACH_NS    UINT64_C(3000) /* under profile: a round of a loop that takes longer has work in it */

/* Called before such a call from that frame, where polls=1 and the thread is in no other call. May spend time. */
void loop_enter(enum call_row row, uintptr_t here);

/* Called after such a call. Ignores calls inside of a blocking call. vain: the call found nothing. */
void loop_leave(bool vain);

/* Ends the loop, and its wait if there is one: the thread makes another call, or none will follow. */
void loop_end(struct wait *wait);

/*
 * Adds up the time of such loops under profile, whatever the policy, by one clock reading in LOOP_TIMED calls.
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
