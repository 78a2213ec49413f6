/*
 * ucx: the hook of UCX. MPICH's wait loop calls ucp_worker_progress at every poll, which returns how much it found; 0
 * is an idle poll.
 *
 * MPICH calls it with the runtime's lock held. After a second thread has called MPI, no thread naps under that lock
 * (act.c), and this hook leaves waits to sched_yield if the runtime calls that.
 *
 * Under Open MPI this hook only notes progress. Open MPI's UCX loops poll this function 99 times for each
 * opal_progress: naps here would starve everything else that opal_progress drives. Open MPI's yields serve instead;
 * vain polls here count among the first idle polls of a call.
 */
#include <stddef.h>

#include "preload/idle/idle.h"
#include "preload/mpi/next.h"
#include "preload/process/process.h"
#include "preload/wait/act.h"
#include "preload/wait/wait.h"

#define EXPORT __attribute__((visibility("default")))

#define CALLERS 8

typedef unsigned int progress_function(void *worker);

/* An object that calls the hook, and the function that it means: a process may have several copies of UCX. */
static struct caller {
	struct idle_text text; /* size 0: not written yet */
	progress_function *next;
} callers[CALLERS];

static uint32_t callers_begun;

unsigned int ucp_worker_progress(void *worker);

/* Finds the function for a caller at that address, and notes its object. A caller beyond CALLERS is not noted. */
static __attribute__((noinline)) progress_function *progress_find(uintptr_t at)
{
	progress_function *found =
	        (progress_function *)next_symbol_for("ucp_worker_progress", (const void *)at, "libucp");
	uintptr_t start = at, size = 1;
	uint32_t index;

	if (!found || __atomic_load_n(&callers_begun, __ATOMIC_RELAXED) >= CALLERS)
		return found;
	index = __atomic_fetch_add(&callers_begun, 1, __ATOMIC_RELAXED);
	if (index >= CALLERS)
		return found;
	next_text((const void *)at, &start, &size);
	callers[index] = (struct caller){.text.start = start, .next = found};
	__atomic_store_n(&callers[index].text.size, size, __ATOMIC_RELEASE);
	return found;
}

static inline bool is_caller(const struct caller *caller, uintptr_t at)
{
	return at - caller->text.start < __atomic_load_n(&caller->text.size, __ATOMIC_ACQUIRE);
}

static __attribute__((noinline)) progress_function *progress_of_other(uintptr_t at)
{
	for (int i = 1; i < CALLERS; i++)
		if (is_caller(&callers[i], at))
			return callers[i].next;
	return progress_find(at);
}

static inline progress_function *progress_of(uintptr_t at)
{
	return __builtin_expect(is_caller(&callers[0], at), 1) ? callers[0].next : progress_of_other(at);
}

static inline bool hook_serves(void)
{
	return process.hooks & MPIWAIT_HOOK_UCP && !(process.threaded && process.hooks & MPIWAIT_HOOK_YIELD);
}

EXPORT unsigned int ucp_worker_progress(void *worker)
{
	progress_function *next = progress_of((uintptr_t)__builtin_return_address(0));
	struct wait *wait = &wait_self;
	unsigned int events;

	if (__builtin_expect(!next, 0))
		return 0;
	events = next(worker);
	if (events > 0)
		wait->progressed = 1;
	else if (!(process.hooks & MPIWAIT_HOOK_UCP))
		wait->polls += wait->polls < WAIT_FREE_POLLS - 1;
	else if (wait->kind >= CALL_TIME && hook_serves() && wait_count_poll(wait) &&
	         wait_may_read_clock(wait, MPIWAIT_HOOK_UCP))
		wait_idle(wait, MPIWAIT_HOOK_UCP);
	return events;
}

bool idle_ucx_switch_on(void)
{
	return next_symbol_for("ucp_worker_progress", NULL, "libucp") != NULL;
}
