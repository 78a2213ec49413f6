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

typedef unsigned int progress_function(void *worker);

static progress_function *next_progress;

unsigned int ucp_worker_progress(void *worker);

static __attribute__((noinline)) progress_function *progress_find(void)
{
	progress_function *found = (progress_function *)next_symbol("ucp_worker_progress");

	if (!found)
		found = (progress_function *)next_symbol_in("libucp", "ucp_worker_progress");
	__atomic_store_n(&next_progress, found, __ATOMIC_RELAXED);
	return found;
}

static inline bool hook_serves(void)
{
	return process.hooks & MPIWAIT_HOOK_UCP && !(process.threaded && process.hooks & MPIWAIT_HOOK_YIELD);
}

/* Forwards a call inside MPI_Init, or of a program that uses UCX without MPI: nothing to note. */
static __attribute__((noinline)) unsigned int progress_first(void *worker)
{
	progress_function *next = progress_find();

	return next ? next(worker) : 0;
}

EXPORT unsigned int ucp_worker_progress(void *worker)
{
	progress_function *next = __atomic_load_n(&next_progress, __ATOMIC_RELAXED);
	struct wait *wait = &wait_self;
	unsigned int events;

	if (__builtin_expect(!next, 0))
		return progress_first(worker);
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
	return progress_find() != NULL;
}
