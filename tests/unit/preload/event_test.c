/*
 * Trust in wake-ups: earned by wake-ups that found something, lost by one sleep in four that should have been woken.
 */
#include "preload/rung/event.h"

#include "tests/lib/check.h"

static struct event_trust proven(void)
{
	struct event_trust trust = {0};

	for (unsigned i = 0; i < EVENT_PROVEN; i++) {
		EXPECT(!event_is_trusted(&trust), "trusted after %u wake-ups", i);
		EXPECT(!event_learn(&trust, EVENT_WOKEN, true), "gave up");
	}
	EXPECT(event_is_trusted(&trust), "not trusted");
	return trust;
}

static unsigned until_given_up(struct event_trust trust, enum event_end end, bool found, unsigned most)
{
	for (unsigned i = 1; i <= most; i++)
		if (event_learn(&trust, end, found)) {
			EXPECT(!event_is_trusted(&trust), "trusted after the end");
			EXPECT(!event_learn(&trust, end, found), "ended twice");
			return i;
		}
	return 0;
}

static void test_end(void)
{
	struct event_trust trust = proven();

	EXPECT(until_given_up(trust, EVENT_LOST, true, 10) == 4, "lost wake-ups");
	EXPECT(until_given_up(trust, EVENT_WOKEN, false, 100) == 64, "a descriptor that is always readable");
	EXPECT(until_given_up(trust, EVENT_BUSY, false, 10000) == 0, "one that was good comes back");
	EXPECT(until_given_up((struct event_trust){0}, EVENT_BUSY, false, 10000) == 4096, "a worker that never arms");
	EXPECT(until_given_up(trust, EVENT_BROKEN, false, 2) == 1, "a worker that cannot wake");
	EXPECT(until_given_up(trust, EVENT_TIMEOUT, false, 10000) == 0, "a long wait is no fault");
	EXPECT(until_given_up(trust, EVENT_TIMEOUT, true, 10000) == 0, "nor is a message that comes as it ends");
	EXPECT(until_given_up(trust, EVENT_BUSY, true, 10000) == 0, "nor is traffic");
	EXPECT(until_given_up(trust, EVENT_SIGNAL, true, 10000) == 0, "nor are signals");
}

static void test_lost(void)
{
	struct event_trust trust = proven();

	event_learn(&trust, EVENT_LOST, false);
	EXPECT(event_is_trusted(&trust), "one may be an accident");
	event_learn(&trust, EVENT_LOST, false);
	EXPECT(!event_is_trusted(&trust), "two are not");
	for (int i = 0; i < 32; i++)
		event_learn(&trust, EVENT_WOKEN, true);
	EXPECT(event_is_trusted(&trust), "trust comes back");
	for (int i = 0; i < 100000; i++)
		event_learn(&trust, i % 50 ? EVENT_WOKEN : EVENT_LOST, true);
	EXPECT(event_is_trusted(&trust) && !trust.given_up, "one in fifty");
}

int main(void)
{
	test_end();
	test_lost();
	return CHECK_RESULT;
}
