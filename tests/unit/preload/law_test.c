/*
 * The budget law of the whole wait engine, under a simulated clock: the real wait.c and ladder.c, every shipped policy
 * by way of its real parsers, and rungs that only move the clock.
 *
 *     law_test [waits [policy]]      per policy, a million by default
 *
 * A wait is 1 to 64 dependent steps: each has to be noticed before the next one begins. It lasts 1 us to 100 s in all;
 * most are short, some are a million times as long. With visible progress the runtime says when it noticed a step.
 *     - What a rung is asked for, and its exit latency, stay within B(w) whenever it is used, and the exit latency
 *       within half of it. w is counted here, not by the engine.
 *     - With visible progress, no step is noticed later than its own B, all of them no later than the sum of B; but
 *       for what the node woke too late, and the poll that notices.
 *     - Long steps are slept through.
 *
 * That is the ladder's law, played without an account. With one, the same waits come from a few places each, so that
 * most are forecast and some are not, and the law is the account's: with visible progress, all steps together are
 * noticed no later than the account allows, but for its debt and for what the node woke too late the latest time. What
 * the ladder does stays within B(w).
 *
 * And with a silent runtime, which says of no step that it noticed it, and needs up to six idle calls to notice one:
 * what is charged for a wait, or doubted, is no less than by how much it ended later than it would have, but for how
 * much the waits that were looked at vary, and for what the ladder slept in it. What is charged in all is no more than
 * allowed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "preload/process/config.h"
#include "preload/wait/act.h"
#include "preload/wait/entry.h"
#include "preload/wait/wait.h"
#include "spank/policy/policy.h"
#include "tests/lib/check.h"

#define WAITS       1000000
#define STEPS_MOST  64
#define LEAST_NS    1000.0
#define MOST_NS     100e9
#define LONG_NS     UINT64_C(5000000)
#define POLL_NS     UINT64_C(400)
#define LOCK_ONE_IN 10
#define SLOWDOWN    10000 /* millionths */
#define SLOW_SHARE  50
#define PLACES      12
#define IDLE_CALLS  6 /* that a silent runtime takes at most to notice what has come */

struct process process = {.hooks = MPIWAIT_HOOK_OPAL};
struct process_guard acting = {PROCESS_ACTS};
struct process_guard *process_guard = &acting;

/* What the model knows of the wait that it plays. */
static struct {
	uint64_t now_ns;
	uint64_t origin_ns; /* of w, as the law has it */
	bool lock;
	uint64_t excess_ns; /* by which the latest doze was too long */
	uint64_t long_ns, asleep_ns;
	uint64_t late_ns, overdrawn_ns, overdrawn_most_ns, forecast, waits; /* with an account */
	bool odd;                                                           /* none of them alike */
	uint32_t places; /* that waits come from, and how long those of each last; 0: anywhere */
	bool long_step;
	bool silent;                  /* the runtime */
	bool single;                  /* no wait has steps */
	uint64_t ladder_ns;           /* slept by the ladder in this wait */
	uint64_t slow_ns, natural_ns; /* of the waits that were forecast: by how much longer than that they were */
} model;

static struct mpiwait_slot slot;
static struct predictor predictors[MPIWAIT_LANES];
static uintptr_t frame[3]; /* of the caller, as wait_caller reads it: [1] is where it is */
static uint64_t random_state = 4711;

void process_flag(uint32_t flag)
{
	(void)flag;
}

void process_hook(uint32_t hook)
{
	slot.hooks |= hook;
}

void process_event_end(void)
{
}

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	ret_now->tv_sec = (time_t)(model.now_ns / NS_PER_S);
	ret_now->tv_nsec = (long)(model.now_ns % NS_PER_S);
	return 0;
}

/* Nobody else has the core, however busy this machine is. */
int getrusage(__rusage_who_t who, struct rusage *ret_usage)
{
	(void)who;
	*ret_usage = (struct rusage){.ru_nivcsw = 0};
	return 0;
}

static uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

/* The law's own words, not the engine's. */
static uint64_t law_budget(uint64_t waited_ns)
{
	const struct config *config = &process.config;
	double budget = (double)waited_ns * (double)config->relative_ppm / 1e6 + (double)config->absolute_ns;
	double max = (double)config->max_ns;

	if (waited_ns < config->spin_ns)
		return 0;
	if (max < (double)waited_ns / 128)
		max = (double)waited_ns / 128 < 4 * max ? (double)waited_ns / 128 : 4 * max;
	if (budget > max)
		budget = max;
	if (model.lock && budget > (double)config->rma_ns && budget > (double)waited_ns / 64)
		budget = (double)waited_ns / 64 > (double)config->rma_ns ? (double)waited_ns / 64
		                                                         : (double)config->rma_ns;
	return (uint64_t)budget;
}

/* Wakes late by half of typical_ns to all of it, and one time in ten by as much again. */
static void model_doze(enum mpiwait_rung rung, uint64_t ask_ns, uint64_t typical_ns)
{
	uint64_t budget_ns = law_budget(model.now_ns - model.origin_ns);
	uint64_t exit_ns = wait_self.ladder.rung[rung].exit_ns;
	uint64_t actual_ns = ask_ns + typical_ns / 2 + random_below(typical_ns / 2 + 1);

	if (!(wait_self.foresight.nap.open && wait_self.foresight.advised)) {
		model.ladder_ns += actual_ns + typical_ns;
		CHECK_LAW(ask_ns + exit_ns <= budget_ns, "rung %d: %" PRIu64 " + %" PRIu64 " at w = %" PRIu64,
		          (int)rung, ask_ns, exit_ns, model.now_ns - model.origin_ns);
		CHECK_LAW(exit_ns <= budget_ns / 2, "rung %d: exit %" PRIu64, (int)rung, exit_ns);
	} else {
		model.forecast++;
	}
	if (random_below(10) == 0)
		actual_ns += typical_ns;
	if (model.places > 0) {
		uint64_t aside_ns = wait_self.foresight.nap.aside_ns;

		CHECK_LAW(wait_self.foresight.nap.open, "a nap of %" PRIu64 " that the account knows nothing of",
		          ask_ns);
		model.overdrawn_ns = actual_ns > aside_ns ? actual_ns - aside_ns : 0;
		if (model.overdrawn_ns > model.overdrawn_most_ns)
			model.overdrawn_most_ns = model.overdrawn_ns;
	}
	model.excess_ns = actual_ns > budget_ns ? actual_ns - budget_ns : 0;
	model.now_ns += actual_ns;
	if (model.long_step)
		model.asleep_ns += actual_ns;
}

static void doze_pause(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns, (void)thread;
}

static void doze_yield(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns, (void)thread;
	model.now_ns += 250;
	model.excess_ns = 250;
}

static void doze_umwait(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)thread;
	model_doze(MPIWAIT_RUNG_UMWAIT, ask_ns, 600);
}

static void doze_mwaitx(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)thread;
	model_doze(MPIWAIT_RUNG_MWAITX, ask_ns, 900);
}

static void doze_nap(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)thread;
	model_doze(MPIWAIT_RUNG_NAP, ask_ns, 6000);
}

static uint64_t most_umwait(void)
{
	return process.config.umwait_max_ns;
}

/* Other rungs of a policy (event, pstate) change nothing of the law: the ladder passes over what has no probe. */
const struct rung rung_table[MPIWAIT_RUNG_COUNT] = {
        [MPIWAIT_RUNG_PAUSE] = {.instant = true, .doze = doze_pause},
        [MPIWAIT_RUNG_YIELD] = {.exit_ns = 300, .doze = doze_yield},
        [MPIWAIT_RUNG_UMWAIT] =
                {.exit_ns = 500, .timed = true, .holds_core = true, .most_ns = most_umwait, .doze = doze_umwait},
        [MPIWAIT_RUNG_MWAITX] = {.exit_ns = 500, .timed = true, .holds_core = true, .doze = doze_mwaitx},
        [MPIWAIT_RUNG_NAP] = {.exit_ns = 10000, .timed = true, .doze = doze_nap},
        [MPIWAIT_RUNG_EVENT] = {0},
        [MPIWAIT_RUNG_PSTATE] = {0},
};

void rung_pstate_hold(struct rung_thread *thread, uint64_t now_ns, bool low)
{
	(void)thread, (void)now_ns, (void)low;
}

void rung_leave(struct rung_thread *thread)
{
	(void)thread;
}

/* Pareto with alpha 1. */
static uint64_t heavy_tail(void)
{
	double length = LEAST_NS * 1e8 / (double)(random_below(100000000) + 1);

	return (uint64_t)(length < MOST_NS ? length : MOST_NS);
}

/* Until the step that ends at end_ns is noticed. Returns how much later that is. */
static uint64_t step_play(struct wait *wait, uint64_t end_ns)
{
	uint64_t unnoticed = model.silent ? random_below(IDLE_CALLS) : 0;

	for (;;) {
		model.now_ns += POLL_NS / 2 + random_below(POLL_NS / 2);
		if (model.now_ns >= end_ns && unnoticed-- == 0)
			return model.now_ns - end_ns;
		model.excess_ns = 0;
		if (++wait->polls >= WAIT_FREE_POLLS)
			wait_idle(wait, model.silent ? MPIWAIT_HOOK_YIELD : MPIWAIT_HOOK_OPAL);
	}
}

/* With an account: nine waits in ten are like the others from the same place; or none is. */
static void place_play(int *steps, uint64_t *mean_ns, bool *lock)
{
	uint64_t place = model.waits++ % model.places;

	frame[1] = 1 + place;
	if (model.odd) {
		*steps = 1;
		*mean_ns = 2000000;
	}
	if (model.odd || random_below(10) == 0)
		return;
	frame[1] = 1000 + place;
	*steps = model.single ? 1 : 1 + (int)place % 4;
	*mean_ns = (place + 1) * 40000;
	*lock = false;
}

/* What is late is no more than the account allows. A poll more may pass until a step is noticed. */
static void account_check(uint64_t late_ns)
{
	model.late_ns += late_ns > POLL_NS ? late_ns - POLL_NS : 0;
	CHECK_LAW(model.late_ns <= account_allowed(&process.account, model.now_ns) + process.account.debt_ns +
	                                   model.overdrawn_ns,
	          "%" PRIu64 " late in all, %" PRIu64 " allowed, %" PRIu64 " woken late", model.late_ns,
	          account_allowed(&process.account, model.now_ns), model.overdrawn_ns);
	CHECK_LAW(process.account.debt_ns <= ACCOUNT_KEPT_NS + model.overdrawn_most_ns, "a debt of %" PRIu64,
	          process.account.debt_ns);
}

/* A wait that is over, of a silent runtime: as it would have been, of so many steps; and as it was, from began_ns on.
 */
static void silent_check(uint64_t began_ns, uint64_t natural_ns, int steps, uint64_t latest_ns, uint64_t charged_ns)
{
	uint64_t over_ns = model.now_ns - began_ns - natural_ns, end_ns = began_ns + natural_ns;
	uint64_t polls_ns = (uint64_t)steps * (IDLE_CALLS + 2) * POLL_NS + 1000;
	uint64_t vary_ns = latest_ns > end_ns ? latest_ns - end_ns : 0, late_ns = slot.lane[0].late_ns;
	uint64_t more_ns = late_ns > charged_ns ? late_ns - charged_ns : 0; /* less: it was forgiven */

	if (latest_ns == UINT64_MAX)
		return;
	model.slow_ns += over_ns;
	model.natural_ns += natural_ns;
	CHECK_LAW(over_ns <= more_ns + vary_ns + model.ladder_ns + polls_ns,
	          "a wait of %" PRIu64 " took %" PRIu64 " more, %" PRIu64 " charged, %" PRIu64 " by the ladder",
	          natural_ns, over_ns, more_ns, model.ladder_ns);
	CHECK_LAW(late_ns <= account_allowed(&process.account, model.now_ns) + process.account.debt_ns,
	          "%" PRIu64 " charged in all, a debt of %" PRIu64, late_ns, process.account.debt_ns);
}

static void wait_play(bool visible, uint64_t *over_ns, uint64_t *allowed_ns)
{
	int steps = 1 + (int)random_below(STEPS_MOST);
	uint64_t mean_ns = heavy_tail() / (unsigned)steps + 1;
	bool lock = random_below(LOCK_ONE_IN) == 0;
	uint64_t began_ns = model.now_ns, natural_ns = 0, latest_ns, charged_ns = slot.lane[0].late_ns;
	uint32_t mode;

	if (model.places > 0)
		place_play(&steps, &mean_ns, &lock);
	model.ladder_ns = 0;
	mode = wait_enter(lock ? ROW_Win_lock : ROW_Recv, CALL_WAIT, lock, (uintptr_t)frame);

	model.lock = lock;
	model.origin_ns = model.now_ns;
	for (int i = 0; i < steps; i++) {
		uint64_t length_ns = mean_ns / 2 + random_below(mean_ns), late_ns, bound_ns;

		if (frame[1] >= 1000)
			length_ns = mean_ns - mean_ns / 200 + random_below(mean_ns / 100);

		natural_ns += length_ns;
		model.long_step = !lock && length_ns >= LONG_NS;
		late_ns = step_play(&wait_self, model.now_ns + length_ns);
		bound_ns = law_budget(length_ns) + model.excess_ns + POLL_NS;
		CHECK_LAW(!visible || model.places > 0 || late_ns <= bound_ns,
		          "a step of %" PRIu64 " noticed %" PRIu64 " late", length_ns, late_ns);
		if (visible && model.places > 0)
			account_check(late_ns);
		*over_ns += late_ns;
		*allowed_ns += bound_ns;
		model.long_ns += model.long_step ? length_ns : 0;
		if (visible) {
			wait_self.progressed = 1;
			model.origin_ns = model.now_ns;
		}
	}
	latest_ns = model.silent ? predictor_latest(&predictors[0]) : 0;
	wait_leave(mode);
	if (model.silent)
		silent_check(began_ns, natural_ns, steps, latest_ns, charged_ns);
}

static bool is_timed(uint32_t rungs)
{
	for (int i = 0; i < (int)MPIWAIT_RUNG_COUNT; i++)
		if (rungs & 1u << i && rung_table[i].timed)
			return true;
	return false;
}

/* Without an account as the ladder's law has it; with one, from a few places. */
struct play {
	int share; /* one in so many of the waits */
	bool visible, accounts, odd, silent, single;
};

static const struct play plays[] = {
        {.share = 2, .visible = true},
        {.share = 2},
        {.share = 10, .visible = true, .accounts = true},
        {.share = 10, .accounts = true},
        {.share = 10, .visible = true, .accounts = true, .odd = true},
        {.share = 4, .silent = true, .accounts = true, .single = true},
        {.share = 2, .silent = true, .accounts = true}, /* long waits are few, and count most */
        {.share = 10, .silent = true, .accounts = true, .odd = true},
};
#define PLAYS (sizeof(plays) / sizeof(plays[0]))

static void waits_play(const char *name, int waits, struct play play)
{
	bool visible = play.visible, odd = play.odd, silent = play.silent;
	uint32_t places = play.accounts ? PLACES : 0;
	uint64_t over_ns = 0, allowed_ns = 0;

	memset(&slot, 0, sizeof(slot));
	memset(&wait_self, 0, sizeof(wait_self));
	memset(&model, 0, sizeof(model));
	model.now_ns = NS_PER_S;
	model.places = places;
	model.odd = odd;
	model.silent = process.silent = silent;
	model.single = play.single;
	process.burst = silent ? FORESIGHT_VAIN : 1;
	frame[1] = 0;
	memset(predictors, 0, sizeof(predictors));
	process.predictors = places > 0 ? predictors : NULL;
	account_open(&process.account, model.now_ns, places > 0 ? SLOWDOWN : 0, 2);
	for (int i = 0; i < waits && !CHECK_ENOUGH; i++)
		wait_play(visible, &over_ns, &allowed_ns);
	CHECK_LAW(!visible || places > 0 || over_ns <= allowed_ns, "%s: %" PRIu64 " late in all, %" PRIu64 " allowed",
	          name, over_ns, allowed_ns);
	if (is_timed(process.policy.rungs) && places > 0 && !odd && (!silent || play.single))
		CHECK_LAW(slot.lane[0].foreseen > slot.lane[0].unforeseen && model.forecast > slot.lane[0].foreseen &&
		                  model.forecast == slot.lane[0].forecasts,
		          "%s: %" PRIu64 " forecasts for %" PRIu64 " waits, and none for %" PRIu64, name,
		          model.forecast, slot.lane[0].foreseen, slot.lane[0].unforeseen);
	if (is_timed(process.policy.rungs) && places == 0)
		CHECK_LAW(model.asleep_ns >= model.long_ns * 17 / 20, "%s: asleep for %" PRIu64 " of %" PRIu64, name,
		          model.asleep_ns, model.long_ns);
	if (silent)
		CHECK_LAW(model.slow_ns <= model.natural_ns / SLOW_SHARE,
		          "%s: waits of %" PRIu64 " took %" PRIu64 " more", name, model.natural_ns, model.slow_ns);
	if (places > 0) {
		allowed_ns = account_allowed(&process.account, model.now_ns);
		over_ns = slot.lane[0].late_ns;
	}
	printf("%-8s %s %s: %d waits, %.3f s late of %.3f s allowed, %" PRIu64 " forecasts, long steps asleep for "
	       "%.1f %%\n",
	       name,
	       silent    ? "silent "
	       : visible ? "visible"
	                 : "hidden ",
	       places > 0 ? "account" : "ladder ", waits, (double)over_ns / 1e9, (double)allowed_ns / 1e9,
	       model.forecast, model.long_ns ? 100.0 * (double)model.asleep_ns / (double)model.long_ns : 0.0);
}

/* As if the node had every rung that this test plays. */
static void policy_play(const struct policy *policy, int waits)
{
	const struct cpu cpu = {.waitpkg = true, .mwaitx = true, .tsc_khz = 2600000, .umwait_max_ns = 38461};
	const uint32_t unplayed = 1u << MPIWAIT_RUNG_EVENT | 1u << MPIWAIT_RUNG_PSTATE;
	char flat[POLICY_FLAT_MAX];

	if (!policy->inject || policy->choose_count > 0)
		return;
	EXPECT(policy_flatten(policy, &cpu, false, false, flat, sizeof(flat)) > 0, "%s", policy->name);
	EXPECT(config_parse(flat, &process.config) == 0, "%s", flat);
	process.policy = (struct ladder_policy){
	        .rungs = process.config.rungs & ~unplayed,
	        .spin_ns = process.config.spin_ns,
	        .relative_ppm = process.config.relative_ppm,
	        .absolute_ns = process.config.absolute_ns,
	        .max_ns = process.config.max_ns,
	};
	for (size_t i = 0; i < PLAYS && CHECK_HOLDING; i++)
		if (policy->slowdown_ppm != 0 || !plays[i].silent)
			waits_play(policy->name, waits / plays[i].share, plays[i]);
}

int main(int argc, char **argv)
{
	static struct policy_set set;
	struct error error = {""};

	process.slot = &slot;
	process.burst = 1;
	process.pstate_after_ns = UINT64_MAX;
	policy_load("", MPIWAIT_POLICIES, NULL, &set, &error);
	EXPECT(set.count >= 7 && error.text[0] == '\0', "%zu policies, %s", set.count, error.text);
	for (size_t i = 0; i < set.count && CHECK_HOLDING; i++)
		if (argc < 3 || strcmp(argv[2], set.policy[i].name) == 0)
			policy_play(&set.policy[i], argc > 1 ? atoi(argv[1]) : WAITS);
	return CHECK_RESULT;
}
