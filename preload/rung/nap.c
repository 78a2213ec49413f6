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

void rung_nap_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	int saved = errno;
	uint64_t told_ns = slack_open(&thread->slack, ask_ns);
	struct timespec told = {(time_t)(told_ns / NS_PER_S), (long)(told_ns % NS_PER_S)};

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &told, NULL);
	slack_close(&thread->slack);
	errno = saved;
}

void rung_nap_leave(struct rung_thread *thread)
{
	int saved = errno;

	slack_forget(&thread->slack);
	errno = saved;
}
