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
 * That is the ladder's law, played without an account. With one, that of the account comes to it:
 *     - What is asked for is within the account's room, and of a call whose periods are compared within what the
 * account may keep; what the ladder asks for with its exit latency, and within B(w).
 *     - Nothing sleeps in a look, but waits that are known to last for 2 ms or more: for fifteen sixteenths of that at
 * most. No nap is asked to last into a look.
 *     - The hard cap: where no wait is like another, so that nothing can be measured, all steps together are noticed no
 *       later than start + slowdown * T, but for what the node woke too late the latest time.
 *     - Waits that come from the same few places, and last as long each time, are forecast and slept through, and in
 *       all noticed no later than the same bound.
 *
 * All that with a silent runtime too, which says of no step that it noticed it, and needs up to six idle calls to
 * notice one; its waits have one step each.
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
#include "preload/wait/presleep.h"
#include "preload/wait/wait.h"
#include "spank/policy/policy.h"
#include "tests/lib/check.h"

#define WAITS        1000000
#define STEPS_MOST   64
#define LEAST_NS     1000.0
#define MOST_NS      100e9
#define LONG_NS      UINT64_C(5000000)
#define POLL_NS      UINT64_C(400)
#define LOCK_ONE_IN  10
#define WORST_ONE_IN 4        /* with an account and no wait like another, a step ends when a nap begins */
#define SLOWDOWN     10000    /* millionths */
#define START_NS     2000000  /* of the account */
#define ERROR_NS     10000000 /* what its own error may forgive */
#define PLACES       6
#define YIELD_NS     250
#define PAUSE_NS     1000                /* between two polls after a landing, by an instruction */
#define AHEAD_NS     (7 * NS_PER_S + 11) /* of the node's clock */
#define IDLE_CALLS   6                   /* that a silent runtime takes at most to notice what has come */

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
	uint64_t end_ns;                                 /* of the step that is played */
	uint64_t late_ns, overdrawn_ns, forecast, waits; /* with an account */
	uint64_t arrived_ns, about_ns;                   /* naps in which a step ended, whole; or in the polls after */
	uint64_t sites;                                  /* that were used once */
	bool accounts, lasting, odd, mixed;              /* odd: no wait is like another; mixed: one in ten is not */
	bool long_step;
	bool silent; /* the runtime */
} model;

static struct mpiwait_slot slot;
static struct mpiwait_header node;
static struct forecast forecast; /* of the one lane */
static uintptr_t frame[3];       /* of the caller, as wait_caller reads it: [1] is where it is */
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
	uint64_t now_ns = model.now_ns + (clock == CLOCK_REALTIME ? AHEAD_NS : 0);

	ret_now->tv_sec = (time_t)(now_ns / NS_PER_S);
	ret_now->tv_nsec = (long)(now_ns % NS_PER_S);
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

static double law_allowed(void)
{
	return START_NS + (double)(model.now_ns - process.opened_ns) * SLOWDOWN / 1e6;
}

/* In a look only what is known to be long, and not to its end; in a strict one nothing. */
static void look_check(const struct plan *plan, uint64_t ask_ns)
{
	const struct looks *looks = &plan->looks;
	uint64_t now_ns = model.now_ns, wait_ns, least_ns, rest_ns;

	CHECK_LAW(looks->from_ns <= now_ns || now_ns + ask_ns <= looks->from_ns,
	          "a nap of %" PRIu64 ", %" PRIu64 " before a look", ask_ns, looks->from_ns - now_ns);
	if (!looks_at(looks, now_ns))
		return;
	CHECK_LAW(plan->forecasts && forecast_knows(plan->forecast), "a nap of %" PRIu64 " in a look", ask_ns);
	wait_ns = plan->aimed_ns - plan->forecast->began_ns;
	least_ns = plan->forecast->entry ? forecast_least_ns(plan->forecast) : 0;
	least_ns = least_ns < wait_ns / 64 ? wait_ns : least_ns;
	rest_ns = least_ns / 16 > FORECAST_SHORT_NS ? least_ns / 16 : FORECAST_SHORT_NS;
	CHECK_LAW(!looks->strict && least_ns >= FORECAST_LONG_NS / (plan->forecast->ranks > 2 ? 1 : 4) &&
	                  now_ns + ask_ns <= plan->forecast->began_ns + least_ns - rest_ns,
	          "a nap of %" PRIu64 " in a look, of a wait of %" PRIu64, ask_ns, least_ns);
}

/* How long a nap may be: of a call whose periods are compared, as long as the account may keep, if it has any room. */
static uint64_t room_of(const struct plan *plan)
{
	const struct forecast_entry *entry = plan->forecasts && plan->forecast ? plan->forecast->entry : NULL;
	uint64_t room_ns = account_room(&plan->account, model.now_ns);
	bool compared = plan->landing_ns > model.now_ns && entry && account_knows(&entry->periods);

	return compared && room_ns > 0 ? (uint64_t)ACCOUNT_KEPT_NS : room_ns;
}

/* A nap under an account, which takes actual_ns. */
static void account_check(const struct plan *plan, uint64_t ask_ns, uint64_t exit_ns, uint64_t actual_ns)
{
	uint64_t room_ns = room_of(plan);

	CHECK_LAW(ask_ns + exit_ns <= room_ns, "%" PRIu64 " + %" PRIu64 ", where there is room for %" PRIu64, ask_ns,
	          exit_ns, room_ns);
	look_check(plan, ask_ns);
	model.overdrawn_ns = actual_ns > room_ns ? actual_ns - room_ns : 0;
	if (model.odd && random_below(WORST_ONE_IN) == 0 && model.end_ns > model.now_ns)
		model.end_ns = model.now_ns + 1;
	if (model.end_ns > model.now_ns && model.end_ns <= model.now_ns + actual_ns)
		model.arrived_ns += actual_ns;
	/* A silent runtime may not have noticed the end of the step yet when the nap begins. */
	if (model.end_ns + (model.silent ? IDLE_CALLS * POLL_NS : 0) > model.now_ns &&
	    model.end_ns <= model.now_ns + actual_ns + process.burst * POLL_NS)
		model.about_ns += actual_ns;
}

/* Wakes late by half of typical_ns to all of it, and one time in ten by as much again. */
static void model_doze(enum mpiwait_rung rung, uint64_t ask_ns, uint64_t typical_ns)
{
	const struct plan *plan = &wait_self.plan;
	uint64_t budget_ns = law_budget(model.now_ns - model.origin_ns);
	uint64_t exit_ns = wait_self.ladder.rung[rung].exit_ns;
	uint64_t actual_ns = ask_ns + typical_ns / 2 + random_below(typical_ns / 2 + 1);
	bool advised = model.accounts && plan->landing_ns > model.now_ns;

	if (random_below(10) == 0)
		actual_ns += typical_ns;
	model.forecast += advised;
	if (!advised && !(model.accounts && ask_ns <= PAUSE_NS)) {
		CHECK_LAW(ask_ns + exit_ns <= budget_ns, "rung %d: %" PRIu64 " + %" PRIu64 " at w = %" PRIu64,
		          (int)rung, ask_ns, exit_ns, model.now_ns - model.origin_ns);
		CHECK_LAW(exit_ns <= budget_ns / 2, "rung %d: exit %" PRIu64, (int)rung, exit_ns);
	}
	if (model.accounts)
		account_check(plan, ask_ns, advised ? 0 : exit_ns, actual_ns);
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
	model.now_ns += YIELD_NS;
	model.excess_ns = YIELD_NS;
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

/* Nothing sleeps before a call here: all have idle calls. */
void presleep_end(struct wait *wait, uint64_t now_ns)
{
	(void)wait, (void)now_ns;
}

/* All lateness here is the nap's own. */
bool rung_nap_was_held(struct rung_thread *thread, uint64_t late_ns)
{
	(void)thread, (void)late_ns;
	return false;
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

/* Until a step of that length is noticed. Returns how much later than its end that is. */
static uint64_t step_play(struct wait *wait, uint64_t length_ns)
{
	uint64_t unnoticed = model.silent ? random_below(IDLE_CALLS) : 0;

	model.end_ns = model.now_ns + length_ns;
	for (;;) {
		model.now_ns += POLL_NS / 2 + random_below(POLL_NS / 2);
		if (model.now_ns >= model.end_ns && unnoticed-- == 0)
			return model.now_ns - model.end_ns;
		model.excess_ns = 0;
		if (wait_count_poll(wait))
			wait_idle(wait, model.silent ? MPIWAIT_HOOK_YIELD : MPIWAIT_HOOK_OPAL);
	}
}

/* With an account: waits are like the others from the same place; or the tenth part is like no other, or none is. */
static void place_play(int *steps, uint64_t *mean_ns, bool *lock)
{
	uint64_t place = model.waits++ % PLACES;

	frame[1] = PLACES + ++model.sites;
	if (model.silent || !model.odd) {
		*steps = 1;
		*mean_ns = 500000;
	}
	if (model.odd && !model.silent)
		*mean_ns *= 8;
	if (model.odd || (model.mixed && random_below(10) == 0))
		return;
	frame[1] = 1 + place;
	*steps = model.mixed && !model.silent ? 1 + (int)place % 3 : 1;
	*mean_ns = (place + 1) * (model.lasting ? 1000000 : 100000);
	*lock = false;
}

static bool is_alike(void)
{
	return model.accounts && frame[1] <= PLACES;
}

/* A step was noticed so late. A poll more may pass until it is, and a yield. */
static void late_check(uint64_t late_ns)
{
	uint64_t polls_ns = (model.silent ? IDLE_CALLS : 1) * (POLL_NS + YIELD_NS);
	double allowed_ns = law_allowed() + (double)model.overdrawn_ns + (model.odd ? 0 : ERROR_NS);

	model.late_ns += late_ns > polls_ns ? late_ns - polls_ns : 0;
	CHECK_LAW(model.mixed || (double)model.late_ns <= allowed_ns, "%" PRIu64 " late in all, %.0f allowed",
	          model.late_ns, allowed_ns);
}

static void wait_play(bool visible, uint64_t *over_ns, uint64_t *allowed_ns)
{
	int steps = 1 + (int)random_below(STEPS_MOST);
	uint64_t mean_ns = heavy_tail() / (unsigned)steps + 1;
	bool lock = random_below(LOCK_ONE_IN) == 0;
	uint32_t mode;

	if (model.accounts)
		place_play(&steps, &mean_ns, &lock);
	mode = wait_enter(lock ? ROW_Win_lock : ROW_Recv, CALL_WAIT, lock, (uintptr_t)frame);
	model.lock = lock;
	model.origin_ns = model.now_ns;
	for (int i = 0; i < steps; i++) {
		uint64_t length_ns = mean_ns / 2 + random_below(mean_ns), late_ns, bound_ns;

		if (is_alike())
			length_ns = mean_ns - mean_ns / 200 + random_below(mean_ns / 100);
		model.long_step = !lock && length_ns >= LONG_NS;
		late_ns = step_play(&wait_self, length_ns);
		bound_ns = law_budget(length_ns) + model.excess_ns + POLL_NS;
		CHECK_LAW(!visible || model.accounts || late_ns <= bound_ns,
		          "a step of %" PRIu64 " noticed %" PRIu64 " late", length_ns, late_ns);
		if (model.accounts && (visible || model.silent))
			late_check(late_ns);
		*over_ns += late_ns;
		*allowed_ns += bound_ns;
		model.long_ns += model.long_step ? length_ns : 0;
		if (visible) {
			wait_self.progressed = 1;
			model.origin_ns = model.now_ns;
		}
	}
	wait_leave(mode);
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
	int share;                                           /* one in so many of the waits */
	bool visible, accounts, lasting, mixed, odd, silent; /* lasting: for 1 ms or more */
};

static const struct play plays[] = {
        {.share = 2, .visible = true},
        {.share = 2},
        {.share = 2, .visible = true, .accounts = true},
        {.share = 20, .visible = true, .accounts = true, .lasting = true},
        {.share = 20, .visible = true, .accounts = true, .mixed = true},
        {.share = 4, .accounts = true},
        {.share = 4, .visible = true, .accounts = true, .odd = true},
        {.share = 2, .silent = true, .accounts = true},
        {.share = 4, .silent = true, .accounts = true, .mixed = true},
        {.share = 10, .silent = true, .accounts = true, .odd = true},
};
#define PLAYS (sizeof(plays) / sizeof(plays[0]))

/* A rank of which nothing is known yet. */
static void rank_begin(struct play play)
{
	memset(&slot, 0, sizeof(slot));
	memset(&wait_self, 0, sizeof(wait_self));
	memset(&model, 0, sizeof(model));
	memset(&forecast, 0, sizeof(forecast));
	model.now_ns = process.opened_ns = NS_PER_S;
	model.accounts = play.accounts;
	model.lasting = play.lasting;
	model.odd = play.odd;
	model.mixed = play.mixed;
	model.silent = process.silent = play.silent;
	process.burst = play.silent ? WAIT_VAIN_POLLS : 1;
	process.forecasts = play.accounts ? &forecast : NULL;
	slot.size = 2;
	slot.launch = 42;
	slot.slowdown_ppm = play.accounts ? SLOWDOWN : 0;
	frame[1] = 0;
}

static void sleep_check(const char *name, struct play play)
{
	const struct mpiwait_lane *lane = &slot.lane[0];

	if (play.accounts && !play.lasting && !play.odd && !play.mixed && (play.visible || play.silent))
		CHECK_LAW(lane->foreseen > lane->unforeseen && model.forecast >= lane->foreseen &&
		                  model.forecast == lane->forecasts,
		          "%s: %" PRIu64 " forecasts for %" PRIu64 " waits, and none for %" PRIu64, name,
		          model.forecast, lane->foreseen, lane->unforeseen);
	if (play.odd)
		CHECK_LAW(model.arrived_ns > 0 && lane->late_ns >= model.arrived_ns && lane->late_ns <= model.about_ns,
		          "%s: %" PRIu64 " charged of %" PRIu64 " to %" PRIu64, name, lane->late_ns, model.arrived_ns,
		          model.about_ns);
	if (!play.accounts)
		CHECK_LAW(model.asleep_ns >= model.long_ns * 17 / 20, "%s: asleep for %" PRIu64 " of %" PRIu64, name,
		          model.asleep_ns, model.long_ns);
}

static void waits_play(const char *name, int waits, struct play play)
{
	uint64_t over_ns = 0, allowed_ns = 0;

	rank_begin(play);
	for (int i = 0; i < waits && !CHECK_ENOUGH; i++)
		wait_play(play.visible, &over_ns, &allowed_ns);
	CHECK_LAW(!play.visible || play.accounts || over_ns <= allowed_ns,
	          "%s: %" PRIu64 " late in all, %" PRIu64 " allowed", name, over_ns, allowed_ns);
	if (is_timed(process.policy.rungs))
		sleep_check(name, play);
	if (play.accounts) {
		allowed_ns = (uint64_t)law_allowed();
		over_ns = model.late_ns;
	}
	printf("%-8s %s %s: %d waits, %.3f s late of %.3f s allowed, %" PRIu64 " forecasts, %" PRIu64
	       " foreseen, %" PRIu64 " not, long steps asleep for %.1f %%\n",
	       name,
	       play.silent    ? "silent "
	       : play.visible ? "visible"
	                      : "hidden ",
	       play.odd        ? "odd    "
	       : play.mixed    ? "mixed  "
	       : play.lasting  ? "lasting"
	       : play.accounts ? "account"
	                       : "ladder ",
	       waits, (double)over_ns / 1e9, (double)allowed_ns / 1e9, model.forecast, slot.lane[0].foreseen,
	       slot.lane[0].unforeseen, model.long_ns ? 100.0 * (double)model.asleep_ns / (double)model.long_ns : 0.0);
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
	EXPECT(config_parse(flat, "", &process.config) == 0, "%s", flat);
	process.policy = (struct ladder_policy){
	        .rungs = process.config.rungs & ~unplayed,
	        .spin_ns = process.config.spin_ns,
	        .relative_ppm = process.config.relative_ppm,
	        .absolute_ns = process.config.absolute_ns,
	        .max_ns = process.config.max_ns,
	};
	for (size_t i = 0; i < PLAYS && CHECK_HOLDING; i++)
		if (is_timed(process.policy.rungs) || !plays[i].accounts)
			waits_play(policy->name, waits / plays[i].share, plays[i]);
}

int main(int argc, char **argv)
{
	static struct policy_set set;
	struct error error = {""};

	process.slot = &slot;
	process.node = &node;
	process.burst = 1;
	process.pstate_after_ns = UINT64_MAX;
	policy_load("", MPIWAIT_POLICIES, NULL, &set, &error);
	EXPECT(set.count >= 7 && error.text[0] == '\0', "%zu policies, %s", set.count, error.text);
	for (size_t i = 0; i < set.count && CHECK_HOLDING; i++)
		if (argc < 3 || strcmp(argv[2], set.policy[i].name) == 0)
			policy_play(&set.policy[i], argc > 1 ? atoi(argv[1]) : WAITS);
	return CHECK_RESULT;
}
