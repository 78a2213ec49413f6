/*
 * sched_yield: the idle call of Open MPI (of opal_progress, from the code of libopen-pal), and of MPICH 5 and Intel MPI
 * (from the code of the MPI library). Any other caller's yield reaches the kernel, also one inside opal_progress: of a
 * progress callback, a transport or a user-level thread.
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
 * Whether the polls of a wait that are not looked at yet give the core away too. Where ranks share one, the message
 * cannot come before the other has run, and 64 polls are what a round trip takes.
 */
static bool is_shared_wait(const struct wait *wait)
{
	return process.config.shared && wait->kind == CALL_WAIT && process.policy.rungs != 0;
}

/* In a blocking call. What the runtime yields by itself reaches the kernel where we spend no time. */
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

/* Where opal_progress ends in a jump, and so yields from here, a caller in libopen-pal is a callback that jumps too. */
static __attribute__((noinline)) bool site_learn(uintptr_t caller)
{
	bool jumps = is_in(&idle.own, __atomic_load_n(&idle.site, __ATOMIC_RELAXED));

	if (!is_in(&idle.own, caller) && (jumps || !is_in(&idle.opal, caller)))
		return false;
	__atomic_store_n(&idle.site, caller, __ATOMIC_RELAXED);
	return true;
}

/* The site was seen inside opal_progress, so that nothing need be known of the frame. */
static inline bool is_opals(uintptr_t caller, uintptr_t frame)
{
	return __builtin_expect(caller == __atomic_load_n(&idle.site, __ATOMIC_RELAXED), 1) ||
	       (frame < idle_frame && site_learn(caller));
}

EXPORT int sched_yield(void)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	struct wait *wait = &wait_self;

	if (is_opals(caller, (uintptr_t)__builtin_frame_address(0))) {
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
