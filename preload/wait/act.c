/*
 * Chooses between forecast and ladder, checks that the account can pay, and acts. The invariant stands in act.h.
 */
#include "preload/wait/act.h"

#include "preload/process/clock.h"
#include "preload/rung/event.h"

#define YIELD_OWN_NS    1500 /* a yield that takes longer has let somebody else run */
#define SHARED_CREDIT   64   /* quick yields in a row after which the core counts as the thread's own again */
#define LANDED_PAUSE_NS 1000 /* pause between two polls after the landing: a message is found that much later */
#define CLOCK_BACK_NS   UINT64_C(1000000) /* time until a core at its lowest frequency runs at full speed again */
#define PROBE_EVERY     16 /* one wait in so many probes for others on the core, and tries a sleep for a message */

/* Learns, from how long a yield has taken, if others want the core. */
static void shared_learn(struct wait *wait, uint64_t actual_ns)
{
	if (actual_ns > WAIT_SLICE_NS)
		wait->shared_ns = wait->last_ns + WAIT_SHARED_NS;
	if (actual_ns > YIELD_OWN_NS) {
		if (wait->shared_credit == 0)
			process_flag(MPIWAIT_FLAG_SHARED_CORES);
		wait->shared_credit = SHARED_CREDIT;
	} else if (wait->shared_credit > 0) {
		wait->shared_credit--;
	}
}

static uint32_t rungs_now(void)
{
	return __atomic_load_n(&process.policy.rungs, __ATOMIC_RELAXED);
}

/* Returns true if the runtime's lock has long kept this wait from napping. */
static bool lacks_naps(const struct wait *wait)
{
	uint64_t since_ns = wait->unlocked_ns > wait->first_ns ? wait->unlocked_ns : wait->first_ns;

	return wait->last_ns - since_ns >= FORECAST_LONG_NS && rungs_now() & 1u << MPIWAIT_RUNG_NAP;
}

/*
 * Returns true if the thread must not nap, since it holds the runtime's lock and a second thread has called MPI: a nap
 * would keep that thread out. Reports waits that lack naps for that reason.
 */
static bool hook_is_locked(struct wait *wait, uint32_t hook)
{
	if (!wait_is_locked(hook)) {
		wait->unlocked_ns = wait->last_ns;
		return false;
	}
	if (!(process.slot->flags & MPIWAIT_FLAG_LOCKED) && lacks_naps(wait))
		process_flag(MPIWAIT_FLAG_LOCKED);
	return true;
}

/*
 * Returns how long a sleep may last that a message ends, 0 if there is none. Until such sleeps are proven, one wait in
 * PROBE_EVERY tries one. A failed try is late by the largest budget.
 */
static uint64_t woken_most_ns(const struct wait *wait)
{
	if (!wait_is_by_messages((enum call_row)wait->row) || wait->loop.open)
		return 0;
	if (event_is_trusted(&wait_event_trust))
		return process.config.event_ns;
	return wait->waits % PROBE_EVERY == 0 ? process.policy.max_ns : 0;
}

/*
 * Returns the cap for a wait for a lock. It grows with the wait: a rank in a hurry does not ask for a lock that is held
 * for long.
 */
static uint64_t lock_cap_ns(uint64_t waited_ns)
{
	uint64_t share_ns = waited_ns / LADDER_LONG_SHARE;

	return share_ns > process.config.rma_ns ? share_ns : process.config.rma_ns;
}

/* The forecast's choice for one moment. NONE: it leaves the choice to the ladder. */
enum choice { CHOICE_NONE, CHOICE_NAP, CHOICE_BY_MESSAGE, CHOICE_POLL };

enum mpiwait_rung wait_rung_timed(bool shared)
{
	uint32_t rungs = rungs_now();

	for (unsigned i = MPIWAIT_RUNG_NAP; i > MPIWAIT_RUNG_YIELD; i--)
		if (rungs & 1u << i && !(shared && rung_table[i].holds_core))
			return (enum mpiwait_rung)i;
	return MPIWAIT_RUNG_PAUSE;
}

/* Returns true if a sleep is proven to end with the message, and the event rung is not benched. */
static bool event_serves(const struct wait *wait, const struct ladder_moment *moment)
{
	return moment->woken_ns > 0 && event_is_trusted(&wait_event_trust) && rungs_now() & 1u << MPIWAIT_RUNG_EVENT &&
	       wait->ladder.rung[MPIWAIT_RUNG_EVENT].back_ns <= moment->now_ns;
}

/*
 * Chooses the sleep until the landing. If a message can end the sleep, an early message costs only the wake-up.
 * Otherwise the clock alone ends the sleep.
 */
static enum choice nap_choose(const struct wait *wait, const struct ladder_moment *moment, struct plan_step step,
                              struct ladder_action *ret_action)
{
	uint64_t woken_ns = step.left_ns < moment->woken_ns ? step.left_ns : moment->woken_ns;
	enum mpiwait_rung rung = wait_rung_timed(moment->shared);

	if (event_serves(wait, moment)) {
		*ret_action = (struct ladder_action){MPIWAIT_RUNG_EVENT, woken_ns, UINT64_MAX, moment->shared};
		return CHOICE_BY_MESSAGE;
	}
	*ret_action = (struct ladder_action){rung, step.ask_ns, UINT64_MAX, moment->shared};
	return rung == MPIWAIT_RUNG_PAUSE ? CHOICE_NONE : CHOICE_NAP;
}

/*
 * Chooses what to do from the landing to the message. The core idles between two polls if it has an instruction for
 * that; if others want the core, the thread yields.
 */
static enum choice pause_choose(const struct wait *wait, const struct ladder_moment *moment,
                                struct ladder_action *ret_action)
{
	*ret_action =
	        (struct ladder_action){moment->shared ? MPIWAIT_RUNG_YIELD : MPIWAIT_RUNG_PAUSE, 0, 0, moment->shared};
	for (unsigned i = MPIWAIT_RUNG_NAP - 1; i > MPIWAIT_RUNG_YIELD && !moment->shared; i--) {
		const struct ladder_latency *latency = &wait->ladder.rung[i];

		if (!(rungs_now() & 1u << i) || latency->back_ns > moment->now_ns)
			continue;
		*ret_action = (struct ladder_action){i, LANDED_PAUSE_NS, LANDED_PAUSE_NS + latency->exit_ns, false};
		break;
	}
	return CHOICE_POLL;
}

bool wait_was_held(struct wait *wait, enum mpiwait_rung rung, uint64_t asked_ns)
{
	return rung == MPIWAIT_RUNG_NAP && wait->last_ns > asked_ns &&
	       rung_nap_was_held(&wait->rung, wait->last_ns - asked_ns);
}

bool wait_is_shared(const struct wait *wait)
{
	return process.config.shared || wait->shared_credit > 0 || wait->last_ns < wait->shared_ns;
}

/* Returns the action that polls again at once. It yields if others want the core. */
static struct ladder_action action_poll(const struct wait *wait)
{
	bool shared = wait_is_shared(wait);

	return (struct ladder_action){shared ? MPIWAIT_RUNG_YIELD : MPIWAIT_RUNG_PAUSE, 0, 0, shared};
}

/*
 * Asks the plan. Returns what to do until the landing or after it. CHOICE_NONE: the ladder decides; moment->waited_ns
 * then counts from the latest known end that was missed.
 */
static enum choice choose(struct wait *wait, struct ladder_moment *moment, struct ladder_action *ret_action)
{
	uint64_t most_ns = wait->ladder.rung[wait_rung_timed(moment->shared)].most_ns;
	struct plan_step step;

	if (moment->locked || moment->waited_ns == 0)
		return CHOICE_NONE;
	step = plan_ask(&wait->plan, wait->last_ns, most_ns);
	switch (step.advice) {
	case PLAN_LOOK:
		*ret_action = action_poll(wait);
		return CHOICE_POLL;
	case PLAN_NAP:
		return nap_choose(wait, moment, step, ret_action);
	case PLAN_LANDED:
		if (!event_serves(wait, moment) || wait->plan.outlasted_ns <= wait->origin_ns)
			return pause_choose(wait, moment, ret_action);
		break;
	case PLAN_LADDER:
		break;
	}
	if (wait->plan.outlasted_ns > wait->origin_ns)
		moment->waited_ns = wait->last_ns - wait->plan.outlasted_ns;
	return CHOICE_NONE;
}

/* Returns true if a message is proven to end the action, which then costs its exit latency alone. */
static bool is_woken(const struct wait *wait, struct ladder_action action)
{
	return wait->ladder.rung[action.rung].woken && event_is_trusted(&wait_event_trust);
}

/*
 * Returns true if the account can pay for the action. A nap by forecast needs no check: the plan has limited it
 * already.
 */
static bool is_paid(const struct wait *wait, struct ladder_action action)
{
	uint64_t exit_ns = wait->ladder.rung[action.rung].exit_ns;

	if (action.ask_ns == 0)
		return true;
	return plan_room(&wait->plan, wait->last_ns) >= (is_woken(wait, action) ? exit_ns : action.ask_ns + exit_ns);
}

/* Cuts a nap of the ladder, or one until the message, so that it ends before the next look begins. */
static uint64_t ask_before_look(const struct wait *wait, uint64_t ask_ns)
{
	uint64_t from_ns = wait->plan.looks.from_ns;

	return from_ns > wait->last_ns && ask_ns > from_ns - wait->last_ns ? from_ns - wait->last_ns : ask_ns;
}

/* Chooses the action after an idle poll. Writes to *ret_choice if a forecast chose it. */
static struct ladder_action action_choose(struct wait *wait, uint32_t hook, enum choice *ret_choice)
{
	struct ladder_moment moment = {
	        .now_ns = wait->last_ns,
	        .waited_ns = wait->last_ns < wait->pace.held_ns ? 0 : wait->last_ns - wait->origin_ns,
	        .cap_ns = wait->rma_lock ? lock_cap_ns(wait->last_ns - wait->origin_ns) : UINT64_MAX,
	        .woken_ns = woken_most_ns(wait),
	        .shared = wait_is_shared(wait),
	        .locked = hook_is_locked(wait, hook),
	};
	struct ladder_action action;

	*ret_choice = CHOICE_NONE;
	if (wait->polls == WAIT_FREE_POLLS && wait->waits % PROBE_EVERY == 1)
		return (struct ladder_action){MPIWAIT_RUNG_YIELD, 0, 0, moment.shared};
	if (!process_has_account())
		return ladder_next(&wait->ladder, &process.policy, moment);
	*ret_choice = choose(wait, &moment, &action);
	if (*ret_choice == CHOICE_NONE)
		action = ladder_next(&wait->ladder, &process.policy, moment);
	if (*ret_choice == CHOICE_NAP)
		return action;
	action.ask_ns = ask_before_look(wait, action.ask_ns);
	return is_paid(wait, action) ? action : action_poll(wait);
}

/* Describes the nap that ended at wait->last_ns. A message that ended it came at most one exit latency before. */
static struct plan_nap nap_of(struct wait *wait, struct ladder_action action, enum choice choice, uint64_t began_ns)
{
	uint64_t came_ns = wait->last_ns - wait->ladder.rung[action.rung].exit_ns, asked_ns = began_ns + action.ask_ns;
	struct plan_nap nap = {
	        .began_ns = began_ns,
	        .ask_ns = action.ask_ns,
	        .woke_ns = wait->last_ns,
	        .shared = action.shared || wait_was_held(wait, action.rung, asked_ns),
	        .alike = action.rung == wait_rung_timed(action.shared),
	};

	if (choice == CHOICE_NAP || choice == CHOICE_BY_MESSAGE)
		nap.end = PLAN_BY_FORECAST;
	if (wait->rung.event == EVENT_WOKEN || wait->rung.event == EVENT_TIMEOUT) {
		nap.end = wait->rung.event == EVENT_WOKEN ? PLAN_BY_MESSAGE : nap.end;
		nap.began_ns = came_ns > began_ns && came_ns < asked_ns ? came_ns : began_ns;
	}
	return nap;
}

/* Returns false if the sleep for a message was refused, so that there was none. */
static bool has_slept(const struct wait *wait)
{
	enum event_end end = wait->rung.event;

	return end == EVENT_NONE || end == EVENT_WOKEN || end == EVENT_TIMEOUT || end == EVENT_SIGNAL;
}

/* Learns from the doze that ended at wait->last_ns. */
static void action_learn(struct wait *wait, struct ladder_action action, enum choice choice, uint64_t began_ns)
{
	uint64_t actual_ns = wait->last_ns - began_ns, late_ns = 0;

	if (choice != CHOICE_NAP)
		late_ns = ladder_learn(&wait->ladder, action, actual_ns, wait->last_ns);
	if (process_has_account() && action.ask_ns > 0 && has_slept(wait)) {
		plan_woke(&wait->plan, nap_of(wait, action, choice, began_ns));
	} else if (!process_has_account() && late_ns > 0) {
		wait->lane->late++;
		wait->lane->late_ns += late_ns;
	}
	if (action.rung == MPIWAIT_RUNG_YIELD)
		shared_learn(wait, actual_ns);
}

/* Takes the action that is due after this idle poll, and learns from it. */
static void act(struct wait *wait, uint32_t hook)
{
	uint64_t began_ns = wait->last_ns, now_ns;
	struct mpiwait_lane *lane = wait->lane;
	struct ladder_action action;
	enum choice choice;
	const struct rung *rung;

	plan_quiet(&wait->plan);
	action = action_choose(wait, hook, &choice);
	rung = &rung_table[action.rung];
	rung->doze(action.ask_ns, &wait->rung);
	lane->naps[action.rung]++;
	if (rung->instant)
		return;
	wait->dozed = 1;
	wait->quiet = 0;
	now_ns = clock_now_ns();
	if (wait_skip_stop(wait, now_ns, action.ask_ns))
		return;
	wait->last_ns = lane->open_last_ns = now_ns;
	lane->asleep_ns[action.rung] += wait->last_ns - began_ns;
	action_learn(wait, action, choice, began_ns);
}

/* Returns true if the forecast landing is far enough to lower the core at once, and to raise it before the landing. */
static bool lasts_by_forecast(const struct wait *wait, bool low)
{
	uint64_t landing_ns = wait->plan.landing_ns;
	uint64_t left_ns = landing_ns > wait->last_ns ? landing_ns - wait->last_ns : 0;

	return left_ns >= CLOCK_BACK_NS + (low ? 0 : process.pstate_after_ns) && !wait->rma_lock;
}

/*
 * Lowers the core for the rest of the wait, or until there is a sign of progress; never under the cap for locks. Each
 * such sign doubles the time until the next lowering: a wait of many steps, or of false signs, changes the frequency
 * only a few times.
 */
static void act_lower(struct wait *wait)
{
	uint64_t origin_ns = wait->plan.outlasted_ns > wait->origin_ns ? wait->plan.outlasted_ns : wait->origin_ns;
	bool foreseen = wait->plan.landing_ns != 0, low = rung_pstate_is_low(&wait->rung);
	bool lasts = foreseen ? lasts_by_forecast(wait, low)
	                      : wait->last_ns - origin_ns >= wait->lower_ns && !wait->rma_lock;

	if (low && !lasts && !foreseen && wait->lower_ns < WAIT_HOUR_NS)
		wait->lower_ns *= 2;
	if (lasts || low)
		rung_pstate_hold(&wait->rung, wait->last_ns, lasts);
}

bool wait_idle(struct wait *wait, uint32_t hook)
{
	if (process_mode() == PROCESS_INERT)
		return false;
	if (__builtin_expect(!(__atomic_load_n(&process.slot->hooks, __ATOMIC_RELAXED) & hook), 0))
		process_hook(hook);
	wait->lane->hook_polls[__builtin_ctz(hook)]++;
	wait_clock(wait, clock_now_ns());
	if (wait->kind != CALL_WAIT || __atomic_load_n(&process.policy.rungs, __ATOMIC_RELAXED) == 0)
		return false;
	if (process.pstate_after_ns != UINT64_MAX && !wait->loop.open)
		act_lower(wait);
	if (++wait->quiet >= process.burst)
		act(wait, hook);
	return true;
}
