/*
 * The run delay, as this kernel counts it: of a thread that shares its one CPU with a process that computes.
 */
#include "preload/rung/run_delay.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/process/clock.h"
#include "preload/rung/rung.h"
#include "tests/lib/check.h"

#define NAP_NS    UINT64_C(200000)
#define NAPS_MOST 100000

/* Binds the process to the CPU that it is on. */
static bool bind(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

/* Starts a process that computes until it is killed. */
static pid_t compute(void)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (volatile unsigned i = 0;; i++)
		;
}

int main(void)
{
	struct rung_thread thread = {0};
	uint64_t before_ns, delay_ns, naps;
	pid_t child;

	if (access("/proc/thread-self/schedstat", R_OK) != 0)
		return 77; /* skipped: this kernel does not count it */
	CHECK(bind());
	child = compute();
	CHECK(child > 0);
	errno = 4711;
	rung_nap_doze(NAP_NS, &thread);
	before_ns = thread.delay_ns;
	for (naps = 1; naps < NAPS_MOST && run_delay_ns() < before_ns + 10 * NAP_NS; naps++)
		rung_nap_doze(NAP_NS, &thread);
	delay_ns = run_delay_ns() - before_ns;
	EXPECT(delay_ns >= 10 * NAP_NS, "held up for %" PRIu64 " ns in %" PRIu64 " naps", delay_ns, naps);
	thread.delay_ns = before_ns;
	CHECK(!rung_nap_was_held(&thread, NAP_NS / 4) && thread.delay_ns == before_ns); /* too little to ask about */
	CHECK(rung_nap_was_held(&thread, delay_ns) && thread.delay_ns > before_ns);     /* for all of the time */
	thread.delay_ns = before_ns;
	CHECK(!rung_nap_was_held(&thread, 9 * NS_PER_S)); /* for a small part of it */
	CHECK(thread.unread == 1 && errno == 4711);
	before_ns = thread.delay_ns;
	for (int i = 0; i < 15; i++)
		rung_nap_doze(NAP_NS, &thread);
	CHECK(thread.delay_ns == before_ns); /* one nap in 16 reads it */
	rung_nap_doze(NAP_NS, &thread);
	CHECK(thread.unread == 17);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return CHECK_RESULT;
}
