/*
 * yield: the hook sched_yield. Open MPI calls it from opal_progress, in the code of libopen-pal; MPICH 5 and Intel MPI
 * from the code of the MPI library. A yield of any other caller reaches the kernel, also one inside opal_progress: from
 * a progress callback, a transport or a user-level thread.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/idle/idle.h"
#include "preload/wait/act.h"
#include "preload/wait/wait.h"

#define EXPORT __attribute__((visibility("default")))

int sched_yield(void);

static __attribute__((noinline)) int yield_really(void)
{
	return (int)syscall(SYS_sched_yield);
}

/*
 * Returns true if the first polls of a wait yield the core too. If ranks share a core, the message cannot come before
 * the other rank has run, and 64 polls take as long as a round trip.
 */
static bool is_shared_wait(const struct wait *wait)
{
	return process.config.shared && wait->kind == CALL_WAIT && process.policy.rungs != 0;
}

/*
 * Handles a yield in a blocking call. The runtime's own yields reach the kernel if the library spends no time in them.
 */
static __attribute__((noinline)) int yield_runtime(struct wait *wait)
{
	if (++wait->polls >= WAIT_FREE_POLLS && wait_lets_look(wait, MPIWAIT_HOOK_YIELD) &&
	    wait_idle(wait, MPIWAIT_HOOK_YIELD))
		return 0;
	if (wait->kind == CALL_WAIT && process.policy.rungs != 0)
		return is_shared_wait(wait) ? yield_really() : 0;
	return idle.yields_natively || !idle.yields_for_us ? yield_really() : 0;
}

static __attribute__((noinline)) int yield_opal(struct wait *wait)
{
	if (wait_idle(wait, MPIWAIT_HOOK_OPAL) || idle.yields_for_us)
		return 0;
	return yield_really();
}

static bool is_in(const struct idle_text *text, uintptr_t caller)
{
	return caller - text->start < text->size;
}

/*
 * Learns the address from which opal_progress yields. If it ends in a jump, and so seems to yield from our code, a
 * caller in libopen-pal is a callback that jumps too, and does not count.
 */
static __attribute__((noinline)) bool caller_learn(uintptr_t caller)
{
	bool jumps = is_in(&idle.own, __atomic_load_n(&idle.caller, __ATOMIC_RELAXED));

	if (!is_in(&idle.own, caller) && (jumps || !is_in(&idle.opal, caller)))
		return false;
	__atomic_store_n(&idle.caller, caller, __ATOMIC_RELAXED);
	return true;
}

/*
 * Returns true if opal_progress yields, and learns from where. A known address was learnt inside opal_progress, and
 * needs no check of the frame.
 */
static inline bool opal_recognise(uintptr_t caller, uintptr_t frame)
{
	return __builtin_expect(caller == __atomic_load_n(&idle.caller, __ATOMIC_RELAXED), 1) ||
	       (frame < idle_frame && caller_learn(caller));
}

EXPORT int sched_yield(void)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	struct wait *wait = &wait_self;

	if (opal_recognise(caller, (uintptr_t)__builtin_frame_address(0))) {
		idle_frame |= IDLE_FRAME_YIELDED;
		if (wait->kind >= CALL_TIME && ++wait->polls >= WAIT_FREE_POLLS)
			return yield_opal(wait);
	} else {
		if (!is_in(&idle.mpi, caller))
			return yield_really();
		if (wait->kind >= CALL_TIME)
			return yield_runtime(wait);
	}
	return idle.yields_for_us && !is_shared_wait(wait) ? 0 : yield_really();
}
