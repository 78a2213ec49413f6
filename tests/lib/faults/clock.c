/*
 * Preloaded into the project's programs: MPIWAIT_CLOCK_JUMP=SECONDS:N makes the wall clock jump at its Nth reading. The
 * monotonic clock goes on, as the kernel's does. Pauses between tries are not slept, but pass on both clocks.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_LEAST_NS 100000000

static long jump_s;
static unsigned jump_at;
static _Atomic unsigned looks;
static _Atomic long skipped_ms;

__attribute__((constructor)) static void jump_read(void)
{
	const char *text = getenv("MPIWAIT_CLOCK_JUMP");

	if (text && sscanf(text, "%ld:%u", &jump_s, &jump_at) != 2)
		abort();
}

static time_t shift(void)
{
	return jump_at && atomic_fetch_add(&looks, 1) + 1 >= jump_at ? jump_s : 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*next)(clockid_t, struct timespec *);
	int result;

	if (!next)
		next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	result = next(clock, now);
	if (clock == CLOCK_REALTIME)
		now->tv_sec += shift();
	if (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC)
		now->tv_sec += skipped_ms / 1000;
	return result;
}

__attribute__((visibility("default"))) int nanosleep(const struct timespec *span, struct timespec *left)
{
	static int (*next)(const struct timespec *, struct timespec *);

	if (!next)
		next = (int (*)(const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "nanosleep");
	if (span->tv_sec == 0 && span->tv_nsec < PAUSE_LEAST_NS)
		return next(span, left);
	skipped_ms += span->tv_sec * 1000 + span->tv_nsec / 1000000;
	return 0;
}

__attribute__((visibility("default"))) unsigned sleep(unsigned seconds)
{
	skipped_ms += seconds * 1000L;
	return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret_time)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret_time)
		*ret_time = now.tv_sec;
	return now.tv_sec;
}
