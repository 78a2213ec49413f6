/*
 * nap: sleeps in the kernel for a given time. Invariant: a signal ends it early, and errno is kept.
 *
 * The sleep is a raw system call: libc's clock_nanosleep is a cancellation point, which an MPI call need not be.
 */
#include "preload/rung/rung.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/process/clock.h"
#include "preload/rung/run_delay.h"

#define READ_EVERY    16u              /* one nap in so many reads the run delay */
#define LATE_LEAST_NS UINT64_C(100000) /* lateness from which on a nap may have been held up */

void rung_nap_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	int saved = errno;
	uint64_t told_ns = slack_open(&thread->slack, ask_ns);
	struct timespec told = {(time_t)(told_ns / NS_PER_S), (long)(told_ns % NS_PER_S)};

	if (thread->unread++ % READ_EVERY == 0)
		thread->delay_ns = run_delay_ns();
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &told, NULL);
	slack_close(&thread->slack);
	errno = saved;
}

bool rung_nap_was_held(struct rung_thread *thread, uint64_t late_ns)
{
	int saved = errno;
	uint64_t before_ns = thread->delay_ns;

	if (late_ns < LATE_LEAST_NS)
		return false;
	thread->delay_ns = run_delay_ns();
	thread->unread = 1;
	errno = saved;
	return thread->delay_ns > before_ns && 2 * (thread->delay_ns - before_ns) > late_ns;
}

void rung_nap_leave(struct rung_thread *thread)
{
	int saved = errno;

	slack_forget(&thread->slack);
	errno = saved;
}
