/*
 * Acts for a waiting thread until the next poll: sleeps by forecast where there is a forecast, takes a rung of the
 * ladder otherwise, or does nothing that takes time.
 *
 * Invariant: with an account, the thread does nothing that takes time unless the account can pay for it. Without an
 * account, the ladder's law holds.
 */
#pragma once

#include "preload/wait/wait.h"

/*
 * Handles an idle poll past the first WAIT_FREE_POLLS of the open call, seen by the given MPIWAIT_HOOK_*. Reads the
 * clock, accounts, and spends some time if the call is a WAIT call and the policy has rungs. Returns false if the
 * caller should do what would happen without the library. Keeps errno.
 */
bool wait_idle(struct wait *wait, uint32_t hook);

/* Returns true if others want the thread's core, as far as is known at wait->last_ns. */
bool wait_is_shared(const struct wait *wait);

/*
 * Returns true if others had the core when a doze of that rung, asked to end at asked_ns, was over at wait->last_ns
 * (rung_nap_was_held). Such a doze counts as one on a shared core: a thread that polls is held up as well.
 */
bool wait_was_held(struct wait *wait, enum mpiwait_rung rung, uint64_t asked_ns);

/* Returns the rung that sleeps until a forecast landing: the deepest that takes a time. MPIWAIT_RUNG_PAUSE: none. */
enum mpiwait_rung wait_rung_timed(bool shared);
