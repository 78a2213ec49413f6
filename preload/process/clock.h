/*
 * The wait clock. The one place that knows where time comes from: nanoseconds, monotonic, arbitrary epoch, the same
 * for all threads of a process. Neither fails nor touches errno.
 *
 * The clock is the TSC where root found it fit and passed its frequency (contract/config_format.h), and the kernel's
 * elsewhere. Root's frequency is within 500 ppm (spank/policy/cpu.h), and so are the times that are reported; deadlines
 * are made of ticks, not of times.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

struct clock_tsc {
	uint64_t khz;    /* 0: the TSC is not the clock */
	uint64_t ns_q32; /* nanoseconds of a tick, times 2^32 */
};

extern struct clock_tsc clock_tsc;

/*
 * Before any wait: makes the TSC the clock, at that frequency. Does nothing where khz is 0, and on other processors.
 */
void clock_use_tsc(uint64_t khz);

static inline bool clock_is_tsc(void)
{
	return clock_tsc.khz != 0;
}

static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec now; /* the clocks that are read here cannot fail */

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The TSC itself, and a time of at most an hour in its ticks, rounded down. Only where clock_is_tsc(). */
static inline uint64_t clock_ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

static inline uint64_t clock_ticks_of(uint64_t ns)
{
	return ns / 1000000 * clock_tsc.khz + ns % 1000000 * clock_tsc.khz / 1000000;
}

/* What waits are measured with: no system call either way. */
static inline uint64_t clock_now_ns(void)
{
#ifdef __x86_64__
	if (clock_is_tsc())
		return (uint64_t)((unsigned __int128)clock_ticks() * clock_tsc.ns_q32 >> 32);
#endif
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* The same in two halves, for what is short: a mark, and the nanoseconds since it. */
static inline uint64_t clock_mark(void)
{
#ifdef __x86_64__
	if (clock_is_tsc())
		return clock_ticks();
#endif
	return clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_since_ns(uint64_t mark)
{
#ifdef __x86_64__
	if (clock_is_tsc())
		return (uint64_t)((unsigned __int128)(clock_ticks() - mark) * clock_tsc.ns_q32 >> 32);
#endif
	return clock_read_ns(CLOCK_MONOTONIC) - mark;
}

/* CPU time of the calling thread. A system call, about ten times as dear as clock_now_ns. */
static inline uint64_t clock_thread_cpu_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* That of all threads of the process: of those that run just now, up to their core's latest tick. */
static inline uint64_t clock_process_cpu_ns(void)
{
	return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}
