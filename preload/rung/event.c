/* Trust in wake-ups. Pure. Invariant: event.h. */
#include "preload/rung/event.h"

#define STRIKES_LOST 16u
#define STRIKES_OUT  64u
#define BUSY_OUT     4096u

static void wake_learn(struct event_trust *trust, bool found)
{
	if (!found) {
		trust->strikes++;
		return;
	}
	trust->wakes += trust->wakes < EVENT_PROVEN;
	trust->strikes -= trust->strikes > 0;
}

bool event_learn(struct event_trust *trust, enum event_end end, bool found)
{
	if (trust->given_up)
		return false;
	if (end == EVENT_WOKEN)
		wake_learn(trust, found);
	else if (end == EVENT_LOST)
		trust->strikes += STRIKES_LOST;
	trust->busy = end == EVENT_BUSY && !found ? trust->busy + 1 : 0;
	trust->given_up = end == EVENT_BROKEN || trust->strikes >= STRIKES_OUT ||
	                  (trust->busy >= BUSY_OUT && trust->wakes < EVENT_PROVEN);
	return trust->given_up;
}
