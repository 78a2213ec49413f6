/*
 * nap: sleeps in the kernel for a given time. Invariant: a signal ends it early, errno stays, and the thread's timer
 * slack (50 microseconds by default: more than most naps) is what it was once the wait is over.
 *
 * Raw system call: libc's clock_nanosleep is a cancellation point, which an MPI call need not be.
 */
#include "preload/rung.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/clock.h"

void rung_slack_lower(struct rung_thread *thread)
{
	int slack_ns;

	if (thread->slack_changed)
		return;
	slack_ns = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
	thread->slack_changed = true;
	thread->slack_ns = slack_ns > 0 ? (unsigned long)slack_ns : 0;
	if (slack_ns > 0)
		prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

void rung_nap_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	struct timespec ask = {(time_t)(ask_ns / NS_PER_S), (long)(ask_ns % NS_PER_S)};
	int saved = errno;

	rung_slack_lower(thread);
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ask, NULL);
	errno = saved;
}

void rung_nap_leave(struct rung_thread *thread)
{
	int saved = errno;

	if (!thread->slack_changed)
		return;
	thread->slack_changed = false;
	if (thread->slack_ns > 0)
		prctl(PR_SET_TIMERSLACK, thread->slack_ns, 0UL, 0UL, 0UL);
	errno = saved;
}
