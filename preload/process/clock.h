/*
 * Clock: the wait clock, and the only file that knows the source of time. Times are nanoseconds, monotonic, from an
 * arbitrary epoch that all threads of a process share. No function fails or touches errno.
 *
 * The clock is the TSC if root found it fit and passed its frequency (contract/config_format.h), else the kernel's.
 * Root's frequency is right to 500 ppm (spank/policy/cpu.h), and so are reported times. Deadlines are made of ticks,
 * not of times.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

struct clock_tsc {
	uint64_t khz;    /* 0: the clock is the kernel's */
	uint64_t ns_q32; /* nanoseconds per tick, times 2^32 */
};

extern struct clock_tsc clock_tsc;

/*
 * Makes the TSC the clock, at that frequency. To be called before any wait. Does nothing if khz is 0, and on other
 * processors.
 */
void clock_use_tsc(uint64_t khz);

/* Returns true if the clock is the TSC. */
static inline bool clock_is_tsc(void)
{
	return clock_tsc.khz != 0;
}

/* Returns the time of one of the kernel's clocks. */
static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec now; /* these clocks cannot fail */

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Return the TSC, and a time of at most an hour in its ticks, rounded down. Only if clock_is_tsc(). */
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

/* Returns the time that waits are measured by. Makes no system call. */
static inline uint64_t clock_now_ns(void)
{
#ifdef __x86_64__
	if (clock_is_tsc())
		return (uint64_t)((unsigned __int128)clock_ticks() * clock_tsc.ns_q32 >> 32);
#endif
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* Measures short times in two halves: a mark, and the nanoseconds since the mark. */
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

/* Returns the CPU time of the calling thread. A system call, about ten times as expensive as clock_now_ns. */
static inline uint64_t clock_thread_cpu_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Returns the CPU time of all threads of the process. For running threads it counts up to their core's latest tick. */
static inline uint64_t clock_process_cpu_ns(void)
{
	return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}
