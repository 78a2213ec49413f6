/*
 * What a waiting thread does until the next poll: a sleep by the forecast, where one is made, a rung of the ladder
 * otherwise, or nothing that takes a time.
 *
 * Invariant: with an account, nothing that takes a time is done that it has not set aside the cost of; without one, the
 * ladder's law holds.
 */
#ifndef MPIWAIT_PRELOAD_ACT_H
#define MPIWAIT_PRELOAD_ACT_H

#include "preload/wait/wait.h"

/* Whether calls of that row end by messages, whatever else the ranks do. */
bool act_is_by_messages(enum call_row row);

/* After as many quiet polls as the runtime needs, the latest of them at wait->last_ns, in that MPIWAIT_HOOK_*. */
void act(struct wait *wait, uint32_t hook);

/* What the latest sleep for an event was worth, now that the polls after it have shown what there was. */
void act_judge(struct wait *wait, bool found);

/*
 * At low frequency for the rest of the wait, or until there is a sign of progress; never under the cap for locks. After
 * each such sign it takes twice as long: a wait of many steps, or of false signs, changes the frequency a few times.
 */
void act_lower(struct wait *wait);

#endif
