/*
 * The budget law and the choice of a rung. Pure; its invariant stands in ladder.h.
 */
#include "preload/budget/ladder.h"

#define STRIKE          8u
#define STRIKES_OUT     (STRIKE * STRIKE)
#define BENCH_NS        UINT64_C(10000000)
#define BENCH_DOUBLINGS 7u
#define NEAR_WINDOW     0xfu
#define HOLD_NS         UINT64_C(50000)
#define HOLD_SIGNS      2u

uint64_t ladder_budget(const struct ladder_policy *policy, uint64_t waited_ns)
{
	double share_ns = (double)waited_ns * (double)policy->relative_ppm / 1e6 + (double)policy->absolute_ns;
	uint64_t most_ns = LADDER_LONG_MOST * policy->max_ns, max_ns = waited_ns / LADDER_LONG_SHARE;

	max_ns = max_ns > policy->max_ns ? max_ns : policy->max_ns;
	max_ns = max_ns < most_ns ? max_ns : most_ns;
	if (waited_ns < policy->spin_ns)
		return 0;
	return share_ns < (double)max_ns ? (uint64_t)share_ns : max_ns;
}

/* A gap is well above the usual if it exceeds near_ns and near_factor times the usual, and far above it likewise. */
struct gap_rule {
	uint64_t near_factor, near_ns, far_factor, far_ns;
	uint32_t far_window;
};

static const struct gap_rule rule_polled = {3, 900, 8, 1500, UINT32_MAX};
static const struct gap_rule rule_dozed = {2, 1200, 2, 1500, 0xf};

/* Moves the usual time, a running 25th percentile, by a gap. A gap with work in it hardly moves it. */
static void usual_learn(struct ladder_usual *usual, uint64_t gap_ns, bool work)
{
	uint64_t unit = usual->ns / 16 + 1;

	if (work)
		usual->ns += usual->ns / 256 + 1;
	else if (gap_ns > usual->ns)
		usual->ns += unit;
	else if (usual->ns > 3 * unit)
		usual->ns -= 3 * unit;
}

enum ladder_sign ladder_gap(struct ladder_pace *pace, bool dozed, uint64_t now_ns, uint64_t gap_ns)
{
	const struct gap_rule *rule = dozed ? &rule_dozed : &rule_polled;
	struct ladder_usual *usual = dozed ? &pace->dozed : &pace->polled;
	bool near = gap_ns > rule->near_ns && gap_ns / rule->near_factor > usual->ns;
	bool far = gap_ns > rule->far_ns && gap_ns / rule->far_factor > usual->ns;
	bool held = now_ns - gap_ns < pace->held_ns;

	pace->near = (pace->near << 1 & NEAR_WINDOW) | near;
	usual->far = (usual->far << 1 & rule->far_window) | far;
	usual_learn(usual, gap_ns, near);
	pace->signs = held ? pace->signs + near : 0;
	if (!near)
		return LADDER_QUIET;
	if (held || pace->near > 1 || (far && usual->far > 1))
		pace->held_ns = now_ns + HOLD_NS;
	return pace->signs >= HOLD_SIGNS ? LADDER_PROGRESS : LADDER_GAP;
}

/* Puts a rung back into use until it is measured again: it is benched sooner, and for longer. */
static void rung_put_on_probation(struct ladder_latency *latency, const struct ladder_policy *policy)
{
	latency->back_ns = latency->retry_ns = 0;
	latency->strikes = STRIKES_OUT / 2;
	latency->benches += latency->benches < BENCH_DOUBLINGS;
	latency->exit_ns = latency->exit_ns < policy->max_ns / 4 ? latency->exit_ns : policy->max_ns / 4;
}

/* Returns true if the rung is not benched. Puts one whose bench is over on probation. */
static bool rung_try_return(struct ladder_latency *latency, const struct ladder_policy *policy, uint64_t now_ns)
{
	if (latency->back_ns != 0 && now_ns >= latency->back_ns)
		rung_put_on_probation(latency, policy);
	return latency->back_ns == 0;
}

/*
 * Returns true if half of the budget covers the rung's exit latency. Puts a rung that has not fitted for as long as a
 * bench on probation: an unused rung cannot learn that it has become better.
 */
static bool rung_try_fit(struct ladder_latency *latency, const struct ladder_policy *policy, uint64_t budget_ns,
                         uint64_t now_ns)
{
	if (latency->exit_ns <= budget_ns / 2) {
		latency->retry_ns = 0;
		return true;
	}
	if (budget_ns < policy->max_ns / 2)
		return false;
	if (latency->retry_ns == 0)
		latency->retry_ns = now_ns + (BENCH_NS << latency->benches);
	if (now_ns < latency->retry_ns)
		return false;
	rung_put_on_probation(latency, policy);
	return true;
}

/*
 * Returns true if the rung that the message ends serves now. Puts it on probation if its bench is over. A capped call
 * never gets here: it holds something that others wait for.
 */
static bool event_try(struct ladder *ladder, const struct ladder_policy *policy, const struct ladder_moment *moment)
{
	struct ladder_latency *event = &ladder->rung[MPIWAIT_RUNG_EVENT];

	return event->woken && (policy->rungs & (1u << MPIWAIT_RUNG_EVENT)) && moment->waited_ns >= policy->spin_ns &&
	       moment->waited_ns >= event->exit_ns && rung_try_return(event, policy, moment->now_ns);
}

struct ladder_action ladder_next(struct ladder *ladder, const struct ladder_policy *policy, struct ladder_moment moment)
{
	struct ladder_action action = {moment.shared ? MPIWAIT_RUNG_YIELD : MPIWAIT_RUNG_PAUSE, 0, 0, moment.shared};
	uint64_t budget_ns = ladder_budget(policy, moment.waited_ns);

	if (moment.woken_ns > 0 && !moment.locked && moment.cap_ns == UINT64_MAX && event_try(ladder, policy, &moment))
		return (struct ladder_action){MPIWAIT_RUNG_EVENT, moment.woken_ns, UINT64_MAX, moment.shared};

	action.budget_ns = budget_ns < moment.cap_ns ? budget_ns : moment.cap_ns;
	if (action.budget_ns == 0)
		return action;
	for (int i = moment.locked ? (int)MPIWAIT_RUNG_YIELD : (int)MPIWAIT_RUNG_COUNT - 1; i > (int)action.rung; i--) {
		struct ladder_latency *latency = &ladder->rung[i];

		if (!(policy->rungs & (1u << i)) || !rung_try_return(latency, policy, moment.now_ns) ||
		    (moment.shared && latency->holds_core) ||
		    !rung_try_fit(latency, policy, action.budget_ns, moment.now_ns))
			continue;
		action.rung = (enum mpiwait_rung)i;
		action.ask_ns = latency->timed ? action.budget_ns - latency->exit_ns : 0;
		if (latency->most_ns && action.ask_ns > latency->most_ns)
			action.ask_ns = latency->most_ns;
		break;
	}
	return action;
}

/*
 * The percentile moves up by nine units or down by one: in balance where one sample in ten is above. A unit is a 256th:
 * steady, yet it follows the node within some hundred naps. For a shared core the other end of the distribution counts,
 * and in larger steps, so that a rung that is late by itself is found out as soon.
 */
uint64_t ladder_learn(struct ladder *ladder, struct ladder_action action, uint64_t actual_ns, uint64_t now_ns)
{
	struct ladder_latency *latency = &ladder->rung[action.rung];
	uint64_t late_ns = actual_ns > action.budget_ns ? actual_ns - action.budget_ns : 0;
	uint64_t unit = latency->exit_ns / 256 + 1, up_ns = (action.shared ? 4 : 9) * unit;
	uint64_t down_ns = (action.shared ? 36 : 1) * unit;

	if (!latency->timed || (latency->woken && actual_ns < action.ask_ns))
		return 0;
	if (actual_ns > action.ask_ns && actual_ns - action.ask_ns > latency->exit_ns)
		latency->exit_ns += up_ns;
	else if (latency->exit_ns > down_ns)
		latency->exit_ns -= down_ns;
	if (late_ns > action.budget_ns && !action.shared)
		latency->strikes += STRIKE;
	else if (latency->strikes > 0 && --latency->strikes == 0)
		latency->benches = 0;
	if (latency->strikes >= STRIKES_OUT)
		latency->back_ns = now_ns + (BENCH_NS << latency->benches);
	return late_ns;
}
