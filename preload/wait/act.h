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

/* Returns the rung that sleeps until a forecast landing: the deepest that takes a time. MPIWAIT_RUNG_PAUSE: none. */
enum mpiwait_rung wait_rung_timed(bool shared);
