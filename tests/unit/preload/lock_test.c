/*
 * The lock as a waiting thread sees it: for how long it leaves that alone between two polls, and when it does not.
 */
#include "preload/wait/lock.h"

#include "preload/process/bell.h"
#include "tests/lib/check.h"

struct process process = {.locks_ring = true};

static struct wait_lock lock = {.held = 1, .taken = 1};

static void nobody_wants_it(void)
{
	lock_look(&lock, 1000);
	EXPECT(lock.proven && lock.alone, "%d %d", lock.proven, lock.alone);
	EXPECT(lock_offer_ns(&lock, 100000) == 0, "it polls on");
}

static void somebody_waits_for_it(void)
{
	bell_want();
	EXPECT(lock_offer_ns(&lock, 64) == 256, "a sixteenth of 64 polls");
	EXPECT(lock_offer_ns(&lock, UINT32_MAX) == 1000, "a microsecond at most");
	bell_have();
	EXPECT(lock_offer_ns(&lock, 64) == 0, "that one has it, and it was not looked since");
}

/* Whoever had to wait comes again; until the next look. */
static void somebody_has_wanted_it(void)
{
	lock_look(&lock, 2000);
	EXPECT(lock.wanted && lock_offer_ns(&lock, 128) == 512, "%d", lock.wanted);
	lock_look(&lock, 3000);
	EXPECT(!lock.wanted && lock_offer_ns(&lock, 128) == 0, "%d", lock.wanted);
}

/* Of a lock that is not seen to be let go, a pause after it helps nobody. */
static void it_is_not_seen(void)
{
	lock.opened = lock.taken;
	lock_look(&lock, 4000);
	EXPECT(!lock.proven && lock_offer_ns(&lock, 128) == 0, "%d", lock.proven);
}

int main(void)
{
	nobody_wants_it();
	somebody_waits_for_it();
	somebody_has_wanted_it();
	it_is_not_seen();
	return CHECK_RESULT;
}
