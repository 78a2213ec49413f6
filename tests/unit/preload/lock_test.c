/*
 * The lock as a waiting thread sees it: for how long it leaves that alone between two polls, and when it does not. The
 * clock is a virtual one, which only pauses move.
 */
#include "preload/wait/lock.h"

#include <time.h>

#include "preload/process/bell.h"
#include "preload/process/clock.h"
#include "tests/lib/check.h"

#define PAUSE_NS 8

struct process process = {.locks_ring = true};

static struct wait_lock lock = {.held = 1, .taken = 1};
static struct {
	uint64_t now_ns;
	uint64_t began_ns;
	uint32_t yields;
} model;

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	ret_now->tv_sec = (time_t)(model.now_ns / NS_PER_S);
	ret_now->tv_nsec = (long)(model.now_ns % NS_PER_S);
	return 0;
}

static void doze_pause(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns;
	(void)thread;
	model.now_ns += PAUSE_NS;
}

static void doze_yield(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns;
	(void)thread;
	model.yields++;
}

const struct rung rung_table[MPIWAIT_RUNG_COUNT] = {
        [MPIWAIT_RUNG_PAUSE] = {.doze = doze_pause},
        [MPIWAIT_RUNG_YIELD] = {.doze = doze_yield},
};

/* For how long the lock is left alone by a wait of so many polls. */
static uint64_t offered_ns(uint32_t polls)
{
	struct rung_thread rung = {0};

	model.began_ns = model.now_ns;
	model.yields = 0;
	lock_offer(&lock, polls, &rung);
	return model.now_ns - model.began_ns;
}

static void nobody_wants_it(void)
{
	lock_look(&lock, 1000);
	EXPECT(lock.proven && lock.alone, "%d %d", lock.proven, lock.alone);
	EXPECT(offered_ns(100000) == 0 && model.yields == 0, "it polls on");
}

static void somebody_waits_for_it(void)
{
	bell_want();
	EXPECT(offered_ns(64) == 256 && model.yields == 1, "a sixteenth of 64 polls, and the core once");
	EXPECT(offered_ns(UINT32_MAX) == 1000 && model.yields == 1, "a microsecond at most");
	bell_have();
	EXPECT(offered_ns(64) == 0 && model.yields == 0, "that one has it, and it was not looked since");
}

/* Whoever had to wait comes again; until the next look. */
static void somebody_has_wanted_it(void)
{
	lock_look(&lock, 2000);
	EXPECT(lock.wanted && offered_ns(128) == 512 && model.yields == 0, "%d", lock.wanted);
	lock_look(&lock, 3000);
	EXPECT(!lock.wanted && offered_ns(128) == 0, "%d", lock.wanted);
}

/* Of a lock that is not seen to be let go, a pause after it helps nobody. */
static void it_is_not_seen(void)
{
	lock.opened = lock.taken;
	lock_look(&lock, 4000);
	EXPECT(!lock.proven && offered_ns(128) == 0, "%d", lock.proven);
}

int main(void)
{
	nobody_wants_it();
	somebody_waits_for_it();
	somebody_has_wanted_it();
	it_is_not_seen();
	return CHECK_RESULT;
}
