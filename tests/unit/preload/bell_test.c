/*
 * The bell: ten thousand times a thread gets a lock under which another naps without an end, or is about to. No nap may
 * end otherwise than by that: who oversleeps has not been rung for, or has slept although the lock was wanted.
 */
#include "preload/process/bell.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "preload/process/clock.h"
#include "tests/lib/check.h"

#define ROUNDS  10000
#define ENDLESS 5 /* seconds */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned ends[BELL_WANTED + 1];
static unsigned overslept;
static bool done, ended;

static unsigned ends_of(enum bell_end end)
{
	return __atomic_load_n(&ends[end], __ATOMIC_RELAXED);
}

static bool is_broken(void)
{
	return __atomic_load_n(&overslept, __ATOMIC_RELAXED) > 0;
}

static void *nap(void *argument)
{
	const struct timespec endless = {ENDLESS, 0};

	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		enum bell_end end;
		uint64_t began_ns;

		pthread_mutex_lock(&mutex);
		began_ns = clock_now_ns();
		end = bell_sleep(&endless);
		if (clock_now_ns() - began_ns >= ENDLESS * NS_PER_S)
			__atomic_fetch_add(&overslept, 1, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&mutex);
		__atomic_fetch_add(&ends[end], 1, __ATOMIC_RELAXED);
		if (end == BELL_WANTED)
			usleep(1);
	}
	__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
	return argument;
}

static void take_and_give(void)
{
	if (pthread_mutex_trylock(&mutex) != 0) {
		bell_want();
		pthread_mutex_lock(&mutex);
		bell_have();
	}
	pthread_mutex_unlock(&mutex);
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, nap, NULL);
	for (int i = 0; i < ROUNDS && !is_broken(); i++) {
		while (i % 2 && __atomic_load_n(&bell.nap, __ATOMIC_RELAXED) == 0 && !is_broken())
			sched_yield();
		take_and_give();
	}
	__atomic_store_n(&done, true, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
		take_and_give();
	pthread_join(thread, NULL);
	EXPECT(!is_broken() && ends_of(BELL_SLEPT) == 0, "%u naps that nobody ended", overslept);
	EXPECT(ends_of(BELL_RUNG) >= ROUNDS / 2, "%u naps that were ended", ends_of(BELL_RUNG));
	CHECK(!bell_is_wanted() && bell.nap == 0);
	return CHECK_RESULT;
}
