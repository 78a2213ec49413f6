/*
 * What a waiting thread does until the next poll: a sleep by the forecast, where one is made, a rung of the ladder
 * otherwise, or nothing that takes a time.
 *
 * Invariant: with an account, nothing that takes a time is done that it has not set aside the cost of; without one, the
 * ladder's law holds.
 */
#pragma once

#include "preload/wait/wait.h"

/*
 * An idle poll past the first WAIT_FREE_POLLS of the open call, seen by that MPIWAIT_HOOK_*. Reads the clock, accounts,
 * and in a WAIT call of a policy that has rungs spends some time. Returns false where it spent none, and the caller
 * should do what would have happened without the library. Keeps errno.
 */
bool wait_idle(struct wait *wait, uint32_t hook);

/* Returns true if others want the thread's core, as far as is known at wait->last_ns. */
bool wait_is_shared(const struct wait *wait);

/* The rung that sleeps until a forecast landing: the deepest that takes a time. MPIWAIT_RUNG_PAUSE: there is none. */
enum mpiwait_rung wait_rung_timed(bool shared);
