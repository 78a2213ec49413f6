/*
 * Whether a thread may nap under the runtime's lock. The law stands in lock.h.
 */
#include "preload/wait/lock.h"

#include "preload/process/bell.h"
#include "preload/process/clock.h"

#define OFFER_POLL_NS UINT64_C(4)
#define OFFER_MOST_NS UINT64_C(1000)

void lock_look(struct wait_lock *lock, uint64_t now_ns)
{
	uint32_t others = __atomic_load_n(&bell.wanted, __ATOMIC_RELAXED) - lock->own;

	lock->apart = !lock->alone;
	lock->proven = process.locks_ring && lock->held > 0 && lock->taken != lock->opened;
	lock->wanted = others != lock->seen || bell_is_wanted();
	lock->alone = lock->proven && !lock->wanted;
	lock->several = __atomic_load_n(&process.threaded, __ATOMIC_RELAXED) || others != 0;
	lock->seen = others;
	if (lock->wanted)
		lock->seen_ns = now_ns;
}

bool lock_withholds(const struct wait_lock *lock, uint32_t hook, uint64_t now_ns)
{
	if (!(process.locked_hooks & hook))
		return false;
	if (!lock->proven)
		return lock->several;
	return !lock->alone || now_ns - lock->seen_ns < bell_rest_ns();
}

void lock_offer(const struct wait_lock *lock, uint32_t polls, struct rung_thread *rung)
{
	uint64_t offer_ns = OFFER_POLL_NS * polls, began_ns;
	bool waited_for = bell_is_wanted();

	if (!waited_for && (!lock->proven || lock->alone))
		return;
	if (offer_ns > OFFER_MOST_NS)
		offer_ns = OFFER_MOST_NS;
	began_ns = clock_now_ns();
	if (waited_for)
		rung_table[MPIWAIT_RUNG_YIELD].doze(0, rung);
	while (clock_now_ns() - began_ns < offer_ns)
		rung_table[MPIWAIT_RUNG_PAUSE].doze(0, rung);
}
