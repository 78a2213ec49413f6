/*
 * yield: the hook sched_yield. An MPI runtime yields when it has polled and found nothing: Open MPI in opal_progress,
 * in the code of libopen-pal; MPICH 5 and Intel MPI in the code of the MPI library. In a blocking call such a yield is
 * an idle poll, in which the thread may sleep.
 *
 * A yield by any other code goes to the kernel as it is. So does one by a progress callback, a transport or a
 * user-level thread that opal_progress calls.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/idle/idle.h"
#include "preload/wait/act.h"
#include "preload/wait/wait.h"

#define EXPORT __attribute__((visibility("default")))

int sched_yield(void);

/* Yields in the kernel. Returns its result. */
static __attribute__((noinline)) int yield_really(void)
{
	return (int)syscall(SYS_sched_yield);
}

/*
 * Returns true if each idle poll of the call must yield in the kernel, the first WAIT_FREE_POLLS included: the ranks
 * share cores, and the thread may sleep in this call. The message cannot come before the rank that shares the core has
 * run, and so many polls without a yield take as long as a round trip.
 */
static bool must_yield(const struct wait *wait)
{
	return process.config.shared && wait->kind == CALL_WAIT && process.policy.rungs != 0;
}

/*
 * Returns true if each idle poll in which the thread does not sleep must yield in the kernel, for the other threads of
 * the process: the runtime gives up its lock for the yield, and only then they get it.
 */
static bool yields_for_threads(void)
{
	return idle.yields_natively && __atomic_load_n(&process.threaded, __ATOMIC_RELAXED);
}

/*
 * Handles an idle poll of MPICH or Intel MPI in a blocking call; returns 0 as sched_yield does. After WAIT_FREE_POLLS
 * the thread may sleep in it. If nothing was slept, a call in which the thread may sleep goes on polling without a
 * yield, unless ranks share cores or other threads may want the lock. In any other call the kernel gets the yield that
 * it would get without this library: none if only this library has switched yields on.
 */
static __attribute__((noinline)) int mpi_idle_poll(struct wait *wait)
{
	bool shares = yields_for_threads();

	if (wait_count_poll(wait) && wait_may_read_clock(wait, MPIWAIT_HOOK_YIELD) &&
	    wait_idle(wait, MPIWAIT_HOOK_YIELD) && (wait->dozed || !shares))
		return 0;
	if (wait->kind == CALL_WAIT && process.policy.rungs != 0 && !shares)
		return must_yield(wait) ? yield_really() : 0;
	return idle.yields_natively || !idle.yields_for_us ? yield_really() : 0;
}

/*
 * Handles an idle poll of Open MPI in a blocking call, past the first WAIT_FREE_POLLS; returns 0 as sched_yield does.
 * The thread may sleep in it. If it may not in this call, the kernel gets the yield, unless only this library has
 * switched yields on.
 */
static __attribute__((noinline)) int opal_idle_poll(struct wait *wait)
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
 * Learns the address from which opal_progress yields. Returns true if this caller is opal_progress.
 *
 * A compiler may end opal_progress with a jump to sched_yield. The return address then lies in our own opal_progress.
 * After such a caller was seen, one in libopen-pal is another function, which opal_progress called: it does not count.
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
		if (wait->kind >= CALL_TIME && wait_count_poll(wait))
			return opal_idle_poll(wait);
	} else {
		if (!is_in(&idle.mpi, caller))
			return yield_really();
		if (wait->kind >= CALL_TIME)
			return mpi_idle_poll(wait);
	}
	return idle.yields_for_us && !must_yield(wait) ? 0 : yield_really();
}
