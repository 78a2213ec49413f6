/*
 * A double of the kernel's clock, preloaded behind the library under test: only a thread's actions make time pass. So a
 * wait does the same on every machine, however busy, and takes no longer than the polls in it.
 *
 * Each thread has a time of its own, which begins at START_NS. A reading of a clock takes READING_NS, a yield YIELD_NS,
 * and a nap the asked time, the thread's timer slack and WAKE_NS. CPU time is all time outside of sleep.
 *
 * Environment, in nanoseconds since the thread's first reading:
 *     TIME_READING=NS        instead of READING_NS
 *     TIME_STOP=AT:LENGTH    the process is stopped for that long
 *     TIME_TAKEN=EVERY:NS    every EVERY, another process has the core for NS
 *     TIME_BOOT=NS           CLOCK_MONOTONIC is ahead of CLOCK_REALTIME by NS (default: both are equal)
 *     TIME_STEP=AT:LENGTH    CLOCK_REALTIME is set forward by LENGTH, or back if that is negative
 *     TIME_KILL=AT           the process gets SIGKILL
 *     TIME_SIGNAL=EVERY      the thread gets SIGALRM, which ends a nap
 *     TIME_LATE=NUMBER:NS    the process's nap of that number, from 1 on, lasts NS longer
 *     TIME_HELD=1            others have the core then, and schedstat (proc(5)) says so; else it cannot be read
 *     TIME_ANSWERS=1         a request on a board (preload/contract/lease.h) is answered at once
 *     TIME_REAL=1            all calls reach the kernel, and are only counted
 *
 * At its end the process prints struct counts, its requests to the kernel, as "key value" lines.
 */
#include "tests/lib/doubles/virtual_time.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/contract/lease.h"
#define NS_PER_S   UINT64_C(1000000000)
#define START_NS   (1000 * NS_PER_S)
#define CPU_NS     (10 * NS_PER_S) /* CPU time of the thread before START_NS */
#define READING_NS 100
#define YIELD_NS   300
#define WAKE_NS    3000
#define YIELDS     8      /* yields passed on to the kernel: on a busy machine each may take milliseconds */
#define PATIENCE   600000 /* longest wait for an answer, in tenths of a millisecond */
#define EXPORT     __attribute__((visibility("default")))

typedef long system_call(long, ...);

static struct counts {
	uint64_t naps;
	uint64_t interrupted;   /* naps ended by a signal */
	uint64_t yields;        /* yields that the library asked the kernel for */
	uint64_t yields_before; /* yields before the first nap */
	uint64_t slack;         /* the largest timer slack of a nap */
} counts;

static struct options {
	bool real, answers, held;
	uint64_t reading_ns, stop_at, stop_ns, taken_every, taken_ns, boot_ns, step_at, step_ns, kill_at, signal_every;
	uint64_t late_nap, late_ns;
} options;

static __thread uint64_t now_ns __attribute__((tls_model("initial-exec")));
static __thread long taken __attribute__((tls_model("initial-exec")));
static __thread uint64_t asleep_ns __attribute__((tls_model("initial-exec")));

static uint64_t option_read(const char *name, uint64_t *ret_more)
{
	const char *text = getenv(name);
	char *end;
	uint64_t number = text ? strtoull(text, &end, 10) : 0;

	if (text && ret_more && *end == ':')
		*ret_more = strtoull(end + 1, NULL, 10);
	return number;
}

__attribute__((constructor)) static void options_read(void)
{
	options.reading_ns = option_read("TIME_READING", NULL);
	options.stop_at = option_read("TIME_STOP", &options.stop_ns);
	options.taken_every = option_read("TIME_TAKEN", &options.taken_ns);
	options.boot_ns = option_read("TIME_BOOT", NULL);
	options.step_at = option_read("TIME_STEP", &options.step_ns);
	options.kill_at = option_read("TIME_KILL", NULL);
	options.signal_every = option_read("TIME_SIGNAL", NULL);
	options.late_nap = option_read("TIME_LATE", &options.late_ns);
	options.held = option_read("TIME_HELD", NULL);
	options.answers = option_read("TIME_ANSWERS", NULL);
	options.real = option_read("TIME_REAL", NULL);
}

__attribute__((destructor)) static void counts_show(void)
{
	dprintf(STDOUT_FILENO, "naps %lu\ninterrupted %lu\nkernel_yields %lu\nyields_before %lu\nnap_slack %lu\n",
	        counts.naps, counts.interrupted, counts.yields, counts.yields_before, counts.slack);
}

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static uint64_t lived(void)
{
	if (now_ns == 0)
		now_ns = START_NS;
	return now_ns - START_NS;
}

/* Lets time pass, asleep or not. Returns true if a signal came in it; a signal ends a sleep. */
static bool pass(uint64_t ns, bool asleep)
{
	uint64_t begin = lived(), end = begin + ns;
	bool signalled = options.signal_every && begin / options.signal_every != end / options.signal_every;

	if (signalled && asleep)
		end = (begin / options.signal_every + 1) * options.signal_every;
	if (asleep)
		asleep_ns += end - begin;
	if (options.stop_at && begin < options.stop_at && end >= options.stop_at) {
		end += options.stop_ns;
		asleep_ns += options.stop_ns;
	}
	if (options.taken_every && !asleep && begin / options.taken_every != end / options.taken_every) {
		end += options.taken_ns;
		taken++;
	}
	now_ns = START_NS + end;
	if (options.kill_at && end >= options.kill_at)
		kill(getpid(), SIGKILL);
	if (signalled)
		raise(SIGALRM);
	return signalled;
}

EXPORT uint64_t virtual_read_ns(void)
{
	pass(options.reading_ns ? options.reading_ns : READING_NS, false);
	return now_ns;
}

EXPORT void virtual_sleep(uint64_t ns)
{
	pass(ns, true);
}

EXPORT uint64_t virtual_naps(void)
{
	return __atomic_load_n(&counts.naps, __ATOMIC_RELAXED);
}

EXPORT uint64_t virtual_interrupted(void)
{
	return __atomic_load_n(&counts.interrupted, __ATOMIC_RELAXED);
}

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
}

static uint64_t ns_of(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

static system_call *kernel(void)
{
	static system_call *next;

	if (!next)
		next = (system_call *)dlsym(RTLD_NEXT, "syscall");
	return next;
}

static uint64_t passed_read_ns(clockid_t clock)
{
	uint64_t read_ns = virtual_read_ns();

	if (clock != CLOCK_REALTIME)
		return read_ns + options.boot_ns;
	return options.step_at && lived() >= options.step_at ? read_ns + options.step_ns : read_ns;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	static int (*next)(clockid_t, struct timespec *);
	bool passes = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_REALTIME;

	if (!options.real && passes) {
		*ret_now = time_of(passed_read_ns(clock));
		return 0;
	}
	if (!options.real && (clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_PROCESS_CPUTIME_ID)) {
		*ret_now = time_of(virtual_read_ns() - START_NS + CPU_NS - asleep_ns);
		return 0;
	}
	if (!next)
		next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	return next(clock, ret_now);
}

/* Counts as involuntary switches only the times at which TIME_TAKEN gives the core to others. */
EXPORT int getrusage(__rusage_who_t who, struct rusage *ret_usage)
{
	int result = (int)kernel()(SYS_getrusage, who, ret_usage);

	if (!options.real && result == 0)
		ret_usage->ru_nivcsw = taken;
	return result;
}

EXPORT int nanosleep(const struct timespec *ask, struct timespec *ret_left)
{
	if (options.real)
		return (int)kernel()(SYS_nanosleep, ask, ret_left);
	pass(ns_of(ask), true);
	return 0;
}

EXPORT int usleep(useconds_t microseconds)
{
	struct timespec ask = time_of((uint64_t)microseconds * 1000);

	return nanosleep(&ask, NULL);
}

static long nap(const long *a)
{
	uint64_t slack = (uint64_t)prctl(PR_GET_TIMERSLACK);
	uint64_t late_ns =
	        __atomic_add_fetch(&counts.naps, 1, __ATOMIC_RELAXED) == options.late_nap ? options.late_ns : 0;
	long code = 0;

	if (slack > counts.slack)
		counts.slack = slack;
	if (options.real)
		code = kernel()(SYS_clock_nanosleep, a[0], a[1], a[2], a[3]);
	else if (pass(ns_of((const struct timespec *)a[2]) + slack + WAKE_NS + late_ns, true)) {
		code = -1;
		errno = EINTR;
	}
	if (code != 0 && errno == EINTR)
		count(&counts.interrupted);
	return code;
}

static long yield(void)
{
	count(&counts.yields);
	if (counts.naps == 0)
		count(&counts.yields_before);
	if (!options.real)
		pass(YIELD_NS, false);
	return options.real || counts.yields <= YIELDS ? kernel()(SYS_sched_yield) : 0;
}

/* Waits until the board (tests/lib/doubles/board.py) has checked the words twice: then the request has its answer. */
static void await_answer(const uint32_t *bell)
{
	const uint32_t *looks = &((const struct mpiwait_board *)(const void *)(bell - 1))->reserved[0];
	uint32_t before = __atomic_load_n(looks, __ATOMIC_ACQUIRE);

	for (int i = 0; i < PATIENCE && __atomic_load_n(looks, __ATOMIC_ACQUIRE) - before < 2; i++)
		kernel()(SYS_nanosleep, &(struct timespec){0, 100000}, NULL);
}

static long futex(const long *a)
{
	long result;

	if (a[1] == FUTEX_WAIT && !options.real) {
		pass(ns_of((const struct timespec *)a[3]), true);
		errno = ETIMEDOUT;
		return -1;
	}
	result = kernel()(SYS_futex, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (a[1] == FUTEX_WAKE && options.answers)
		await_answer((const uint32_t *)a[0]);
	return result;
}

/* Opens a text as schedstat has it, of the time by which a nap has lasted longer. */
static long schedstat_open(void)
{
	bool was_late = __atomic_load_n(&counts.naps, __ATOMIC_RELAXED) >= options.late_nap;
	int file = options.held ? memfd_create("schedstat", MFD_CLOEXEC) : -1;

	if (file < 0) {
		errno = ENOENT;
		return -1;
	}
	dprintf(file, "123456789 %" PRIu64 " 42\n", 777 + (was_late ? options.late_ns : 0));
	lseek(file, 0, SEEK_SET);
	return file;
}

/* The library under test makes its system calls through this function of libc. */
EXPORT long syscall(long number, ...)
{
	va_list arguments;
	long a[6];

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_clock_nanosleep)
		return nap(a);
	if (number == SYS_sched_yield)
		return yield();
	if (number == SYS_openat && !options.real && strcmp((const char *)a[1], "/proc/thread-self/schedstat") == 0)
		return schedstat_open();
	if (number == SYS_futex)
		return futex(a);
	return kernel()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
