/*
 * sched_yield: the idle call of Open MPI (inside opal_progress), and of MPICH 5 and Intel MPI (from the code of the
 * MPI library). Any other caller's yield reaches the kernel.
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
	if (++wait->polls >= WAIT_FREE_POLLS && lock_lets_look(&wait->lock, wait->polls, MPIWAIT_HOOK_YIELD) &&
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

EXPORT int sched_yield(void)
{
	struct wait *wait = &wait_self;

	if ((uintptr_t)__builtin_frame_address(0) < idle_frame) {
		idle_frame |= IDLE_FRAME_YIELDED;
		if (wait->kind >= CALL_TIME && ++wait->polls >= WAIT_FREE_POLLS)
			return yield_opal(wait);
	} else {
		if ((uintptr_t)__builtin_return_address(0) - idle.text >= idle.text_size)
			return yield_really();
		if (wait->kind >= CALL_TIME)
			return yield_runtime(wait);
	}
	return idle.yields_for_us && !is_shared_wait(wait) ? 0 : yield_really();
}
