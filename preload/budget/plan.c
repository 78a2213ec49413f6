/*
 * Turns forecast, look and account into advice for the thread. The picture stands in plan.h.
 */
#include "preload/budget/plan.h"

void plan_start(struct plan *plan, struct forecast *forecast, struct mpiwait_lane *lane, struct mpiwait_header *node,
                uint64_t seed, uint64_t slowdown_ppm, uint64_t now_ns)
{
	*plan = (struct plan){.forecast = forecast, .lane = lane, .node = node};
	plan->overslept_ns = __atomic_load_n(&node->overslept_ns, __ATOMIC_RELAXED);
	account_open(&plan->account, now_ns, slowdown_ppm, forecast && forecast->ranks > 0 ? forecast->ranks : 1);
	looks_open(&plan->looks, seed, now_ns);
}

/*
 * Returns true if this pause shall show how long the open call waits when nobody sleeps: it began with a streak, or in
 * a job of two ranks.
 */
static bool is_doubted(const struct plan *plan)
{
	return plan->account.paused && plan->forecasts && plan->forecast->entry &&
	       (plan->account.ranks <= 2 || account_strayed(&plan->account, &plan->forecast->entry->periods));
}

/* Returns a number that is unique to the look at that time, or to the pause that serves as one; 0: it is in neither. */
static uint64_t look_number(const struct plan *plan, uint64_t now_ns)
{
	if (is_doubted(plan))
		return ~plan->account.paused_ns;
	return !looks_at(&plan->looks, now_ns) ? 0 : now_ns < plan->looks.from_ns ? 1 : plan->looks.number + 2;
}

/* Charges what the ranks of this node have told since the last charge. */
static void overslept_charge(struct plan *plan, uint64_t now_ns)
{
	uint64_t before_ns = plan->overslept_ns;

	plan->overslept_ns = __atomic_load_n(&plan->node->overslept_ns, __ATOMIC_RELAXED);
	if (plan->overslept_ns != before_ns)
		account_overslept(&plan->account, (int64_t)(plan->overslept_ns - before_ns),
		                  __atomic_load_n(&plan->node->claimed, __ATOMIC_RELAXED), now_ns);
}

void plan_open(struct plan *plan, uint64_t call, uint32_t number, bool forecasts, uint64_t now_ns, uint64_t real_ns)
{
	plan->forecasts = forecasts && plan->forecast;
	plan->told_ns = plan->slept = false;
	plan->ended_ns = plan->landing_ns = plan->empty_ns = plan->woke_ns = plan->landed_ns = plan->outlasted_ns = 0;
	plan->silent_ns = now_ns;
	if (looks_find(&plan->looks, now_ns, real_ns)) {
		account_settle(&plan->account, now_ns);
		plan->lane->look = looks_tell(&plan->looks, now_ns);
	}
	overslept_charge(plan, now_ns);
	account_resume(&plan->account, 4 * looks_window_ns(&plan->looks), now_ns, real_ns);
	if (plan->forecast)
		forecast_open(plan->forecast, call, number, now_ns);
	if (plan->forecast && plan->forecast->entry)
		account_renew(&plan->account, &plan->forecast->entry->periods, now_ns);
	plan->look = look_number(plan, now_ns);
}

/* Returns the most that the account counts of what the open call costs; 0: it does not compare the call. */
static uint64_t cut_of(const struct plan *plan)
{
	bool known = plan->forecasts && plan->forecast->entry && account_knows(&plan->forecast->entry->periods);

	return known ? (uint64_t)(plan->forecast->entry->periods.usual_ns / ACCOUNT_CUT) : 0;
}

uint64_t plan_room(const struct plan *plan, uint64_t now_ns)
{
	if (!plan->forecast || cut_of(plan) > 0)
		return account_room(&plan->account, now_ns);
	return account_room_unmeasured(&plan->account, plan->forecast->began_ns, now_ns);
}

/*
 * Charges the latest nap for what has come, unless empty polls have shown since that nothing came in it. What it
 * overslept beyond the cut is told to all ranks of this node.
 */
static void nap_end(struct plan *plan)
{
	uint64_t cut_ns = cut_of(plan), most_ns = cut_ns > 0 ? cut_ns : FORECAST_SHORT_NS;
	uint64_t told_ns = plan->over_ns > most_ns ? plan->over_ns - most_ns : 0;
	uint64_t cost_ns = cut_ns > 0 ? told_ns : plan->woke_ns - plan->empty_ns;

	if (plan->empty_ns == 0)
		return;
	plan->told_ns += told_ns;
	if (told_ns > 0)
		__atomic_fetch_add(&plan->node->overslept_ns, told_ns, __ATOMIC_RELAXED);
	account_charge(&plan->account, (double)(cost_ns - told_ns));
	overslept_charge(plan, plan->woke_ns);
	plan->lane->late_ns += cost_ns;
	plan->empty_ns = 0;
}

void plan_progress(struct plan *plan, uint64_t last_ns, uint64_t now_ns)
{
	if (last_ns - plan->silent_ns >= FORECAST_NAP_NS)
		plan->ended_ns = last_ns;
	plan->silent_ns = now_ns;
	nap_end(plan);
}

/*
 * Returns true if the thread shall be awake when the open call ends: in a look, after late ends or with shorter
 * work, and while few ends are known.
 */
static bool must_be_awake(const struct plan *plan, uint64_t now_ns)
{
	return looks_at(&plan->looks, now_ns) || forecast_doubts(plan->forecast) || !forecast_knows(plan->forecast);
}

/* Returns when the nap of a known call shall end, 0 if there is nothing to sleep for. */
static uint64_t landing(const struct plan *plan, uint64_t end_ns, uint64_t now_ns)
{
	const struct forecast *forecast = plan->forecast;
	bool look = looks_at(&plan->looks, now_ns), two = forecast->ranks <= 2 && forecast->entry->late < 3;
	uint64_t wait_ns = end_ns - forecast->began_ns, before_ns = forecast->entry->margin_ns;

	if (must_be_awake(plan, now_ns)) {
		uint64_t kept_ns = forecast_least_ns(forecast), least_ns = kept_ns < wait_ns / 64 ? wait_ns : kept_ns;
		uint64_t rest_ns = least_ns >> (LOOKS_PERIOD_SHIFT - LOOKS_WINDOW_SHIFT);

		if (forecast->shorter || (look && plan->looks.strict) ||
		    least_ns < FORECAST_LONG_NS / (look && two ? 4 : 1))
			return 0;
		end_ns = forecast->began_ns + least_ns - (rest_ns > FORECAST_SHORT_NS ? rest_ns : FORECAST_SHORT_NS);
	}
	before_ns += forecast_exit_ns(forecast, end_ns - now_ns);
	return end_ns > now_ns + before_ns ? end_ns - before_ns : 0;
}

/*
 * Limits a nap: it may not last into a look, nor longer than the account allows. A call that is compared may take any
 * nap up to the kept limit. Until a call has as many ends as a forecast takes, its naps use half of what is left: an
 * end of the wait in which a program starts may be 50 times too late, and a nap until then used up the account. Later
 * that would be too little: where waits of 0.1 and 1.9 ms come by coin, naps in the short ones left nothing for the
 * long ones.
 */
static uint64_t ask_limit(const struct plan *plan, uint64_t rest_ns, uint64_t now_ns, uint64_t most_ns)
{
	uint64_t room_ns = plan_room(plan, now_ns) / (forecast_knows(plan->forecast) ? 1 : 2);
	uint64_t ask_ns = forecast_part_ns(plan->forecast, rest_ns), exit_ns;

	if (cut_of(plan) > 0)
		room_ns = room_ns > 0 ? (uint64_t)ACCOUNT_KEPT_NS : 0;
	if (plan->looks.from_ns > now_ns && ask_ns > plan->looks.from_ns - now_ns)
		ask_ns = plan->looks.from_ns - now_ns;
	exit_ns = forecast_exit_ns(plan->forecast, ask_ns);
	if (ask_ns + exit_ns > room_ns)
		ask_ns = room_ns > exit_ns ? room_ns - exit_ns : 0;
	return most_ns != 0 && ask_ns > most_ns ? most_ns : ask_ns;
}

/* Advises a nap that aims at that end, or to poll if such a nap would be shorter than it is usually late. */
static struct plan_step step_towards(struct plan *plan, uint64_t end_ns, uint64_t now_ns, uint64_t most_ns)
{
	uint64_t landing_ns = landing(plan, end_ns, now_ns);
	uint64_t ask_ns = landing_ns > now_ns ? ask_limit(plan, landing_ns - now_ns, now_ns, most_ns) : 0;

	plan->outlasted_ns = end_ns < now_ns ? end_ns : plan->outlasted_ns;
	if (ask_ns < forecast_exit_ns(plan->forecast, 0))
		return (struct plan_step){.advice = must_be_awake(plan, now_ns) ? PLAN_LOOK : PLAN_LANDED};
	plan->landing_ns = landing_ns;
	plan->aimed_ns = end_ns;
	return (struct plan_step){.advice = PLAN_NAP, .ask_ns = ask_ns, .left_ns = landing_ns - now_ns};
}

/*
 * Advises where no end is known to come. Among many ranks a rank that is late may have overslept, so that naps while
 * the others wait for it would make more of them late: the ladder begins after twice the usual period.
 */
static struct plan_step step_unknown(struct plan *plan, uint64_t now_ns)
{
	bool missed = plan->outlasted_ns != 0, long_ago = missed && now_ns - plan->outlasted_ns >= FORECAST_LONG_NS;

	if (looks_at(&plan->looks, now_ns) && (!long_ago || plan->looks.strict || plan->account.ranks > 2))
		return (struct plan_step){.advice = PLAN_LOOK};
	if (missed && plan->account.ranks > 2 &&
	    now_ns - plan->forecast->entry->ended_ns < 2 * ACCOUNT_CUT * cut_of(plan))
		return (struct plan_step){.advice = PLAN_LANDED};
	plan->landing_ns = 0;
	return (struct plan_step){.advice = PLAN_LADDER};
}

/*
 * Advises where fewer ends are known than a forecast takes. Most of a long wait may be slept through. Else a rank of
 * two is awake, to learn the ends of a call that repeats; once the wait is long the ladder takes over.
 */
static struct plan_step step_first(struct plan *plan, uint64_t now_ns, uint64_t most_ns)
{
	uint64_t began_ns = plan->forecast->began_ns;
	struct plan_step step = {.advice = PLAN_LOOK};

	if (!looks_at(&plan->looks, now_ns))
		step = step_towards(plan, began_ns + forecast_least_ns(plan->forecast), now_ns, most_ns);
	if (step.advice != PLAN_NAP && (plan->account.ranks > 2 || now_ns - began_ns >= FORECAST_LONG_NS))
		step = step_unknown(plan, now_ns);
	return step;
}

struct plan_step plan_ask(struct plan *plan, uint64_t now_ns, uint64_t most_ns)
{
	uint64_t end_ns, past_ns, cut_ns, wrong_ns;

	plan->landing_ns = now_ns;
	if (!plan->forecasts || !plan->forecast->entry)
		return step_unknown(plan, now_ns);
	if (!forecast_knows(plan->forecast))
		return step_first(plan, now_ns, most_ns);
	end_ns = forecast_end(plan->forecast, now_ns, &past_ns);
	/* After a missed end, a nap until the others may be wrong: it is no longer than the account can count. */
	cut_ns = past_ns != 0 ? cut_of(plan) : 0;
	wrong_ns = cut_ns > FORECAST_SHORT_NS ? cut_ns : FORECAST_SHORT_NS;
	if (cut_ns > 0 && (most_ns == 0 || most_ns > wrong_ns))
		most_ns = wrong_ns;
	if (end_ns != 0)
		return step_towards(plan, end_ns, now_ns, most_ns);
	plan->outlasted_ns = past_ns;
	return step_unknown(plan, now_ns);
}

void plan_woke(struct plan *plan, struct plan_nap nap)
{
	uint64_t asked_ns = nap.began_ns + nap.ask_ns, over_ns = nap.woke_ns > asked_ns ? nap.woke_ns - asked_ns : 0;
	bool by_forecast = nap.end == PLAN_BY_FORECAST;

	plan->slept |= by_forecast;
	plan->landed_ns = by_forecast ? nap.woke_ns : plan->landed_ns;
	plan->lane->forecasts += by_forecast;
	plan->empty_ns = nap.began_ns;
	plan->woke_ns = nap.shared && over_ns > 0 ? asked_ns : nap.woke_ns;
	plan->over_ns = nap.shared ? 0 : over_ns;
	if (plan->forecast && nap.alike && !nap.shared && nap.end != PLAN_BY_MESSAGE)
		forecast_woke(plan->forecast, nap.ask_ns, nap.woke_ns - nap.began_ns);
}

/* Counts a call that has ended, for the record. A cost above the compared time would count as a false claim there. */
static void call_count(const struct plan *plan, uint64_t ended_ns, bool late)
{
	const struct account *account = &plan->account;
	struct mpiwait_lane *lane = plan->lane;

	lane->foreseen += plan->slept;
	lane->late += late;
	lane->unforeseen += !plan->slept && plan->look == 0 && ended_ns - plan->forecast->began_ns >= FORECAST_SHORT_NS;
	lane->early += plan->slept && !late;
	lane->early_ns += plan->slept && !late ? ended_ns - plan->landed_ns : 0;
	lane->cost_slept_ns = (uint64_t)account->slept_ns;
	lane->cost_more_ns = (int64_t)(account->more_ns < account->slept_ns ? account->more_ns : account->slept_ns);
	lane->cost_variance_us = (uint64_t)(account->variance_sum * 1e-6);
	lane->cost_windows = account->windows;
}

/*
 * Makes the account learn the period of a call that ended, and widens the margin if a loss was measured. Takes back
 * what the thread has told of an oversleep in the call before, as far as both periods together were no longer than
 * usual.
 */
static void period_learn(struct plan *plan, struct forecast_passed passed, uint64_t now_ns)
{
	struct forecast_entry *entry = plan->forecast->entry;
	struct account *account = &plan->account;
	uint64_t period_ns = passed.ns / passed.periods, window_ns = looks_window_ns(&plan->looks);
	uint64_t usual_ns = account_knows(&entry->periods) ? (uint64_t)entry->periods.usual_ns : entry->least_ns;
	int64_t more_ns = (int64_t)(passed.ns - usual_ns * passed.periods);
	int64_t lost_ns = more_ns + entry->more_ns, back_ns = entry->told_ns - (lost_ns > 0 ? lost_ns : 0);
	bool paused = account->paused;

	if (back_ns > 0)
		__atomic_fetch_sub(&plan->node->overslept_ns, (uint64_t)back_ns, __ATOMIC_RELAXED);
	if (entry->told_ns == 0 && plan->told_ns == 0 && entry->least_ns - 1 >= period_ns)
		entry->least_ns = period_ns;
	entry->told_ns = account->ranks == 2 && usual_ns > 0 ? (int64_t)plan->told_ns : 0;
	entry->more_ns = more_ns;
	if (passed.looked && is_doubted(plan))
		entry->work_ns = account_relearned(account, &entry->periods, period_ns, now_ns) ? 0 : entry->work_ns;
	else if (passed.looked)
		account_looked(account, &entry->periods, entry->look, period_ns, now_ns);
	else if (now_ns - passed.ns >= (paused ? account->paused_ns : account->resumed_ns))
		account_slept(account, &entry->periods, passed.ns, passed.periods, window_ns, now_ns);
	if (account->paused && !paused)
		forecast_widen(entry);
	looks_step(&plan->looks, period_ns, passed.ns, now_ns);
}

bool plan_is_late(const struct plan *plan, uint64_t ended_ns)
{
	return plan->slept && forecast_is_late(plan->forecast, plan->landed_ns, plan->aimed_ns, ended_ns);
}

void plan_close(struct plan *plan, uint64_t last_ns)
{
	struct forecast_seen seen = {.slept = plan->slept};
	struct forecast_passed passed;

	if (plan->ended_ns == 0 || last_ns - plan->silent_ns >= FORECAST_NAP_NS)
		plan->ended_ns = last_ns;
	nap_end(plan);
	if (!plan->forecasts)
		return;
	seen.ended_ns = plan->ended_ns;
	seen.awake = plan->woke_ns < plan->forecast->began_ns + (seen.ended_ns - plan->forecast->began_ns) / 4;
	seen.late = plan_is_late(plan, seen.ended_ns);
	seen.look = seen.late || look_number(plan, last_ns) != plan->look ? 0 : plan->look;
	call_count(plan, seen.ended_ns, seen.late);
	passed = forecast_close(plan->forecast, seen);
	if (passed.changed)
		account_change(&plan->account, last_ns);
	else if (passed.ns != 0)
		period_learn(plan, passed, last_ns);
}

void plan_drop(struct plan *plan)
{
	plan->forecasts = false;
	plan->landing_ns = 0;
}
