/*
 * The law of the account, and what the predictor is worth, under a simulated clock: the real account, predictor and
 * ladder, asked in the order in which wait.c asks them.
 *
 *     foresight_test [waits [generator]]      per generator, a million by default
 *
 * Each generator makes waits, after some work each. A poll takes no time here, and a poller notices at once, so that
 * what is late is late because of a nap. The law is checked at each end: no delay is more than its charge, all charges
 * are within what is allowed and the debt, and the debt is no more than what is kept and what the kernel woke too late
 * the latest time. The ladder keeps within its half, but for what the kernel woke too late. Where waits repeat
 * themselves they are slept through; what a generator's waits were slept through at least, and how many may have ended
 * late, stands in its row.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/budget/account.h"
#include "preload/budget/ladder.h"
#include "preload/budget/predictor.h"
#include "tests/lib/check.h"

#define WAITS      1000000
#define US         UINT64_C(1000)
#define MS         UINT64_C(1000000)
#define LEAST_STEP UINT64_C(500)
#define EXIT_NS    16000
#define SLOWDOWN   10000 /* millionths */

static struct account account;
static struct predictor predictor;
static struct ladder ladder;
static const struct ladder_policy policy = {
        .rungs = 1u << MPIWAIT_RUNG_PAUSE | 1u << MPIWAIT_RUNG_NAP,
        .spin_ns = 20000,
        .relative_ppm = 62500,
        .max_ns = 100000,
};

#define FIRST   UINT64_MAX /* of the long sleeps */
#define LONG_NS 300000

/* What the model knows. */
static struct {
	uint64_t now_ns, exit_ns, rare_ns, rarely, long_sleeps;
	uint64_t wait_ns, asleep_ns, delay_ns, charged_ns, ladder_ns, excess_ns, late, advised;
	uint64_t worst_ns;
} model;

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

static double random_unit(void)
{
	return (double)(random_below(UINT64_C(1) << 52) + 1) / (double)(UINT64_C(1) << 52);
}

static uint64_t around(uint64_t mean_ns, double deviation)
{
	double normal = sqrt(-2 * log(random_unit())) * cos(6.283185307179586 * random_unit());
	double wait_ns = (double)mean_ns * (1 + deviation * normal);

	return wait_ns > 1000 ? (uint64_t)wait_ns : 1000;
}

/* A wait: where it is called from, the work before it, and how long it lasts. */
struct scene {
	uint64_t caller, work_ns, wait_ns;
	bool adversary; /* it ends right after the first nap begins */
};

static struct scene make_constant(uint64_t i)
{
	(void)i;
	return (struct scene){1, MS, MS, false};
}

static struct scene make_long(uint64_t i)
{
	(void)i;
	return (struct scene){1, 10 * MS, 100 * MS, false};
}

static struct scene make_jitter(uint64_t i)
{
	(void)i;
	return (struct scene){1, MS, around(MS, 0.01), false};
}

/* The partner keeps its period; the own work varies. */
static struct scene make_own_jitter(uint64_t i)
{
	uint64_t work_ns = MS / 2 + random_below(MS);

	(void)i;
	return (struct scene){1, work_ns, 3 * MS - work_ns, false};
}

static struct scene make_drift(uint64_t i)
{
	double phase = (double)(i % 20000) / 20000;

	return (struct scene){1, MS, (uint64_t)(MS * (1.5 + sin(6.283185307179586 * phase))), false};
}

static struct scene make_step(uint64_t i)
{
	return (struct scene){1, MS, i / 100 % 2 ? 300 * US : MS, false};
}

static struct scene make_bimodal(uint64_t i)
{
	(void)i;
	return (struct scene){1, MS, random_below(2) ? 100 * US : 1900 * US, false};
}

/* Each rank is the slow one in turn, and does not wait then. */
static struct scene make_rotating(uint64_t i)
{
	return (struct scene){1, MS, i % 16 == 5 ? 0 : around(400 * US, 0.005), false};
}

static struct scene make_uniform(uint64_t i)
{
	(void)i;
	return (struct scene){1, MS, US + random_below(2 * MS), false};
}

static struct scene make_pareto(uint64_t i)
{
	double wait_ns = 20000 / random_unit();

	(void)i;
	return (struct scene){1, 100 * US, wait_ns < 10e9 ? (uint64_t)wait_ns : UINT64_C(10000000000), false};
}

static struct scene make_adversary(uint64_t i)
{
	(void)i;
	return (struct scene){1, MS, MS, true};
}

/* As many callers as the table has places, and more. */
static struct scene make_crowd(uint64_t i)
{
	uint64_t caller = i % 1000;

	return (struct scene){caller, MS, 200 * US + caller * 3 * US, false};
}

/* Two calls in turn, each with a wait of its own. */
static struct scene make_site_pair(uint64_t i)
{
	return (struct scene){i % 2, MS, i % 2 ? 400 * US : 3 * MS, false};
}

static const struct generator {
	const char *name;
	struct scene (*make)(uint64_t i);
	unsigned slept_percent;  /* of the waiting, at least */
	unsigned late_per_10000; /* naps that ended too late, at most, of all waits */
	uint64_t exit_ns;
	uint64_t rare_ns, rarely; /* one sleep in so many ends so much later, or the FIRST one does */
} generators[] = {
        {"constant", make_constant, 88, 25, EXIT_NS, 0, 0},
        {"long", make_long, 98, 25, EXIT_NS, 0, 0},
        {"jitter", make_jitter, 87, 25, EXIT_NS, 0, 0},
        {"own-jitter", make_own_jitter, 92, 25, EXIT_NS, 0, 0},
        {"drift", make_drift, 90, 25, EXIT_NS, 0, 0},
        {"step", make_step, 74, 80, EXIT_NS, 0, 0},
        {"bimodal", make_bimodal, 74, 80, EXIT_NS, 0, 0},
        {"rotating", make_rotating, 74, 40, EXIT_NS, 0, 0},
        {"uniform", make_uniform, 0, 10000, EXIT_NS, 0, 0},
        {"pareto", make_pareto, 0, 10000, EXIT_NS, 0, 0},
        {"adversary", make_adversary, 0, 10000, EXIT_NS, 0, 0},
        {"crowd", make_crowd, 0, 10000, EXIT_NS, 0, 0},
        {"two-sites", make_site_pair, 86, 25, EXIT_NS, 0, 0},
        {"exit-short", make_jitter, 94, 40, EXIT_NS / 10, 0, 0},
        {"exit-long", make_jitter, 5, 40, EXIT_NS * 10, 0, 0},
        {"rare-4ms", make_jitter, 87, 40, EXIT_NS, 4 * MS, 4000},
        {"rare-100ms", make_jitter, 0, 40, EXIT_NS, 100 * MS, 4000},
        {"rare-1ms", make_jitter, 87, 80, EXIT_NS, MS, 400},
        {"rare-250us", make_jitter, 80, 120, EXIT_NS, MS / 4, 150},
        {"first-4ms", make_jitter, 87, 40, EXIT_NS, 4 * MS, FIRST},
};

#define GENERATORS (sizeof(generators) / sizeof(generators[0]))

struct wait {
	uint64_t origin_ns, end_ns, empty_ns;
	struct account_nap nap;
	bool advised, adversary;
};

/* Sleeps, and wakes late by half of the typical exit latency to all of it, and one time in 50 by four times as much. */
static void model_sleep(struct wait *wait, uint64_t ask_ns)
{
	uint64_t actual_ns = ask_ns + model.exit_ns / 2 + random_below(model.exit_ns / 2 + 1);

	if (random_below(50) == 0)
		actual_ns += 4 * model.exit_ns;
	if (model.rare_ns > 0 &&
	    (model.rarely == FIRST ? ask_ns > LONG_NS && model.long_sleeps++ == 0 : random_below(model.rarely) == 0))
		actual_ns += model.rare_ns;
	if (wait->adversary && wait->end_ns > model.now_ns + 1)
		wait->end_ns = model.now_ns + 1;
	model.now_ns += actual_ns;
	account_woke(&wait->nap, model.now_ns);
	predictor_woke(&predictor, ask_ns, actual_ns);
	model.asleep_ns += actual_ns < wait->end_ns - wait->empty_ns ? actual_ns : wait->end_ns - wait->empty_ns;
}

/* Returns whether it slept. */
static bool sleep_advised(struct wait *wait, struct predictor_nap nap)
{
	wait->advised = true;
	if (!account_begin(&account, &wait->nap, ACCOUNT_WHOLE, model.now_ns, nap.ask_ns + nap.exit_ns))
		return false;
	model.advised++;
	model_sleep(wait, nap.ask_ns);
	return true;
}

static bool sleep_by_ladder(struct wait *wait, uint64_t origin_ns)
{
	struct ladder_moment moment = {
	        .now_ns = model.now_ns, .waited_ns = model.now_ns - origin_ns, .cap_ns = UINT64_MAX};
	struct ladder_action action = ladder_next(&ladder, &policy, moment);
	uint64_t cost_ns = action.ask_ns + ladder.rung[action.rung].exit_ns, began_ns = model.now_ns;

	wait->advised = false;
	if (action.rung != MPIWAIT_RUNG_NAP ||
	    !account_begin(&account, &wait->nap, ACCOUNT_LADDER, model.now_ns, cost_ns))
		return false;
	model_sleep(wait, action.ask_ns);
	ladder_learn(&ladder, action, model.now_ns - began_ns, model.now_ns);
	return true;
}

/* After an empty poll. */
static bool wait_sleeps(struct wait *wait)
{
	uint64_t room_ns = account_room(&account, ACCOUNT_WHOLE, model.now_ns);
	struct predictor_nap nap;

	predictor.rich = account_is_rich(&account, room_ns);
	switch (predictor_advise(&predictor, model.now_ns, room_ns, 0, &nap)) {
	case PREDICTOR_NAP:
		return sleep_advised(wait, nap);
	case PREDICTOR_LANDED:
		return false;
	case PREDICTOR_OUTLASTED:
		return sleep_by_ladder(wait, predictor.landed_ns);
	case PREDICTOR_UNKNOWN:
		break;
	}
	return sleep_by_ladder(wait, wait->origin_ns);
}

static void law_check(const struct wait *wait, uint64_t charge_ns, uint64_t delay_ns)
{
	uint64_t allowed_ns = account_allowed(&account, model.now_ns), aside_ns = wait->nap.aside_ns;

	model.charged_ns += charge_ns;
	model.delay_ns += delay_ns;
	model.worst_ns = delay_ns > model.worst_ns ? delay_ns : model.worst_ns;
	model.excess_ns = charge_ns > aside_ns ? charge_ns - aside_ns : 0;
	if (wait->nap.purse == ACCOUNT_LADDER)
		model.ladder_ns += charge_ns - model.excess_ns;
	CHECK_LAW(delay_ns <= charge_ns, "a delay of %" PRIu64 " for a charge of %" PRIu64, delay_ns, charge_ns);
	CHECK_LAW(model.charged_ns <= allowed_ns + account.debt_ns,
	          "%" PRIu64 " charged, %" PRIu64 " allowed, a debt of %" PRIu64, model.charged_ns, allowed_ns,
	          account.debt_ns);
	CHECK_LAW(account.debt_ns <= ACCOUNT_KEPT_NS / account.parts + model.excess_ns,
	          "a debt of %" PRIu64 ", %" PRIu64 " of it the latest", account.debt_ns, model.excess_ns);
	CHECK_LAW(wait->nap.purse != ACCOUNT_LADDER || model.ladder_ns <= allowed_ns / 2,
	          "%" PRIu64 " charged to the ladder, %" PRIu64 " allowed", model.ladder_ns, allowed_ns / 2);
}

/* Polls until there is something to find, or it may be time to sleep again. */
static void model_poll(struct wait *wait)
{
	uint64_t step_ns = (model.now_ns - wait->origin_ns) / 64 + LEAST_STEP;

	model.now_ns = wait->end_ns - model.now_ns < step_ns ? wait->end_ns : model.now_ns + step_ns;
}

static void wait_play(struct wait *wait)
{
	bool slept = false;
	uint64_t charge_ns = 0;

	for (;;) {
		if (model.now_ns >= wait->end_ns)
			break;
		if (wait->nap.open)
			account_end(&account, &wait->nap, false);
		wait->empty_ns = model.now_ns;
		slept = wait_sleeps(wait);
		if (!slept)
			model_poll(wait);
	}
	if (slept) {
		charge_ns = account_end(&account, &wait->nap, true);
		law_check(wait, charge_ns, model.now_ns - wait->end_ns);
		model.late += wait->advised;
	} else {
		wait->empty_ns = model.now_ns;
	}
}

static void generator_play(const struct generator *generator, uint64_t waits)
{
	memset(&predictor, 0, sizeof(predictor));
	memset(&ladder, 0, sizeof(ladder));
	memset(&model, 0, sizeof(model));
	random_state = 4711;
	ladder.rung[MPIWAIT_RUNG_NAP] = (struct ladder_latency){.timed = true, .exit_ns = 10000};
	model.exit_ns = generator->exit_ns;
	model.rare_ns = generator->rare_ns;
	model.rarely = generator->rarely;
	model.now_ns = MS;
	account_open(&account, model.now_ns, SLOWDOWN, 2);
	for (uint64_t i = 0; i < waits && !CHECK_ENOUGH; i++) {
		struct scene scene = generator->make(i);
		struct wait wait = {.adversary = scene.adversary};

		model.now_ns += scene.work_ns;
		if (scene.wait_ns == 0)
			continue;
		wait.origin_ns = model.now_ns;
		wait.end_ns = wait.origin_ns + scene.wait_ns;
		predictor_open(&predictor, predictor_site(scene.caller, 0, 0, 0), model.now_ns);
		wait_play(&wait);
		model.wait_ns += wait.end_ns - wait.origin_ns;
		predictor_close(&predictor, wait.empty_ns, wait.empty_ns < wait.end_ns && wait.advised);
	}
	printf("%-11s slept %5.1f %%, late %6.2f in 10000, delay %5.3f %%, charged %5.3f %% of the run, worst %" PRIu64
	       " us\n",
	       generator->name, 100.0 * (double)model.asleep_ns / (double)model.wait_ns,
	       1e4 * (double)model.late / (double)waits, 100.0 * (double)model.delay_ns / (double)model.now_ns,
	       100.0 * (double)model.charged_ns / (double)model.now_ns, model.worst_ns / 1000);
	EXPECT(model.asleep_ns * 100 >= model.wait_ns * generator->slept_percent, "%s: slept %" PRIu64 " of %" PRIu64,
	       generator->name, model.asleep_ns, model.wait_ns);
	EXPECT(model.late * 10000 <= waits * generator->late_per_10000, "%s: %" PRIu64 " late", generator->name,
	       model.late);
}

/* A nap that is found to have cost so much. */
static void nap_play(struct account_nap *nap, uint64_t now_ns, uint64_t lasted_ns)
{
	account_woke(nap, now_ns + lasted_ns);
	EXPECT(account_end(&account, nap, true) == lasted_ns, "charged from the last empty poll to the wake-up");
}

static void test_account(void)
{
	uint64_t now_ns = 100 * MS, half_ns = ACCOUNT_START_NS / 2;
	struct account_nap nap = {.open = false};

	account_open(&account, now_ns, SLOWDOWN, 16);
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns) == ACCOUNT_START_NS, "the start");
	EXPECT(account_room(&account, ACCOUNT_LADDER, now_ns) == half_ns, "half of it for the ladder");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, 0) == ACCOUNT_START_NS, "a clock that goes back takes nothing");
	EXPECT(!account_begin(&account, &nap, ACCOUNT_WHOLE, now_ns, ACCOUNT_START_NS + 1), "not to be paid");
	EXPECT(account_begin(&account, &nap, ACCOUNT_LADDER, now_ns, half_ns), "all that the ladder has");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns) == half_ns, "what is set aside is gone");
	EXPECT(account_end(&account, &nap, false) == 0, "nothing arrived");
	EXPECT(account_room(&account, ACCOUNT_LADDER, now_ns) == half_ns, "given back");
	EXPECT(account_begin(&account, &nap, ACCOUNT_LADDER, now_ns, half_ns), "again");
	nap_play(&nap, now_ns, half_ns);
	EXPECT(account_room(&account, ACCOUNT_LADDER, now_ns) == 0, "the ladder has spent its half");
	EXPECT(account_begin(&account, &nap, ACCOUNT_WHOLE, now_ns, half_ns), "forecasts have theirs");
	nap_play(&nap, now_ns, half_ns);
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns) == 0 &&
	               !account_begin(&account, &nap, ACCOUNT_WHOLE, now_ns, 1),
	       "all is spent");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns + 200 * MS) == 2 * MS, "1 %% of the time");
	EXPECT(account_room(&account, ACCOUNT_LADDER, now_ns + 200 * MS) == MS, "half of it");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns + 3600000 * MS) == ACCOUNT_KEPT_NS, "no more is kept");
	EXPECT(account_room(&account, ACCOUNT_LADDER, now_ns + 3600000 * MS) == ACCOUNT_KEPT_NS / 2, "nor of the half");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns + 3600100 * MS) == ACCOUNT_KEPT_NS,
	       "and what was not is gone");
}

/* The kernel ends a nap far too late: what was set aside is spent, the rest is a debt. */
static void test_debt(void)
{
	uint64_t now_ns = 100 * MS, half_ns = 500 * US;
	struct account_nap nap = {.open = false};

	account_open(&account, now_ns, SLOWDOWN, 16);
	EXPECT(account_begin(&account, &nap, ACCOUNT_LADDER, now_ns, half_ns), "there is enough");
	nap_play(&nap, now_ns, half_ns + 4 * MS);
	now_ns = nap.woke_ns;
	EXPECT(account.debt_ns == 4 * MS, "what the kernel woke too late");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns) > MS, "naps go on");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns + 100 * MS) ==
	               account_allowed(&account, now_ns) - half_ns + MS / 2,
	       "half of what is earned is left");
	EXPECT(account_room(&account, ACCOUNT_LADDER, now_ns + 100 * MS) ==
	               (account_allowed(&account, now_ns) + MS / 2) / 2 - half_ns,
	       "half of that is the ladder's");
	EXPECT(account.debt_ns == 4 * MS - MS / 2, "the other half has repaid");
	account_room(&account, ACCOUNT_WHOLE, now_ns + 900 * MS);
	EXPECT(account.debt_ns == 0, "in 800 ms it is repaid");
	now_ns += 900 * MS;
	EXPECT(account_begin(&account, &nap, ACCOUNT_WHOLE, now_ns, half_ns), "again");
	nap_play(&nap, now_ns, half_ns + ACCOUNT_KEPT_NS + MS);
	now_ns = nap.woke_ns;
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns + MS) == 0 &&
	               !account_begin(&account, &nap, ACCOUNT_WHOLE, now_ns + MS, 1),
	       "so much ends all naps");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns + 200 * MS) > 0, "until 1 ms is repaid");
}

/* Others have had the core: that is nobody's debt, nor is it how soon one wakes. */
static void test_shared(void)
{
	uint64_t now_ns = 100 * MS, half_ns = 500 * US;
	struct account_nap nap = {.open = false};

	account_open(&account, now_ns, SLOWDOWN, 16);
	EXPECT(account_begin(&account, &nap, ACCOUNT_LADDER, now_ns, half_ns), "there is enough");
	nap.shared = true;
	account_woke(&nap, now_ns + half_ns + 40 * MS);
	EXPECT(account_end(&account, &nap, true) == half_ns && account.debt_ns == 0, "a debt of %" PRIu64,
	       account.debt_ns);
	EXPECT(account_room(&account, ACCOUNT_WHOLE, now_ns) == account_allowed(&account, now_ns) - half_ns,
	       "what was set aside is charged");
	for (int shared = 1; shared >= 0; shared--) {
		memset(&predictor, 0, sizeof(predictor));
		predictor.shared = shared;
		for (int i = 0; i < 2000; i++)
			predictor_woke(&predictor, 200 * US, (i % 3 == 0 ? 3200 : 240) * US);
		EXPECT((predictor.exit_ns[2] < 60 * US) == shared, "exit latency %" PRIu64, predictor.exit_ns[2]);
	}
}

static void test_parts(void)
{
	account_open(&account, 0, SLOWDOWN, 1000);
	EXPECT(account_parts(0) == 1 && account_parts(16) == 1 && account_parts(17) == 4 && account_parts(1024) == 19,
	       "three more for each level");
	EXPECT(account_allowed(&account, 0) == ACCOUNT_START_NS / 19, "a part of the start");
	EXPECT(account_allowed(&account, 1900 * MS) == (ACCOUNT_START_NS + 19 * MS) / 19, "and of the time");
	EXPECT(account_room(&account, ACCOUNT_WHOLE, 3600000 * MS) == ACCOUNT_KEPT_NS / 19, "and of what is kept");
}

/* A wait of two signs of progress and an end, each looked for, and the naps before them as advised. */
static void phases_play(bool known)
{
	static const uint64_t ends_ns[] = {300 * US, 900 * US, 1500 * US};
	const uint64_t room_ns = 10 * MS;
	struct predictor_nap nap = {.ask_ns = 0};
	uint64_t began_ns = model.now_ns;

	predictor_open(&predictor, predictor_site(7, 1, 2, 3), began_ns);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t end_ns = began_ns + ends_ns[i], margin_ns = predictor.entry ? predictor.entry->margin_ns : 0;
		enum predictor_advice advice = predictor_advise(&predictor, model.now_ns, room_ns, 0, &nap);

		EXPECT(!known || (advice == PREDICTOR_NAP && nap.whole == (i == 0)), "phase %u: advice %d", i,
		       (int)advice);
		EXPECT(!known || model.now_ns + nap.ask_ns + nap.exit_ns + margin_ns <= end_ns, "phase %u", i);
		EXPECT(!known || model.now_ns + 3 * nap.ask_ns + nap.exit_ns >= end_ns, "phase %u: far too short", i);
		model.now_ns = end_ns;
		if (i < 2)
			predictor_progress(&predictor, end_ns, false);
		else
			predictor_close(&predictor, end_ns, false);
	}
	model.now_ns += MS;
}

static void test_phases(void)
{
	memset(&predictor, 0, sizeof(predictor));
	memset(&model, 0, sizeof(model));
	model.now_ns = MS;
	for (int i = 0; i < 1000; i++)
		predictor_woke(&predictor, 200 * US, 240 * US);
	for (int i = 0; i < 20; i++)
		phases_play(i > 5);
}

/* A wait of a silent runtime, of which that is known. */
static void silent_play(uint64_t wait_ns, enum predictor_end end)
{
	predictor_open(&predictor, predictor_site(7, 1, 2, 3), model.now_ns);
	predictor_close(&predictor, model.now_ns + wait_ns, end);
	model.now_ns += 2 * MS;
}

static void silent_begin(uint32_t ranks)
{
	memset(&predictor, 0, sizeof(predictor));
	memset(&model, 0, sizeof(model));
	model.now_ns = MS;
	predictor.silent = true;
	predictor.ranks = ranks;
	predictor.previous = predictor_site(7, 1, 2, 3);
}

/* Opens one more. Returns the margin of what is known of it. */
static uint64_t silent_margin(void)
{
	predictor_open(&predictor, predictor_site(7, 1, 2, 3), model.now_ns);
	return predictor.entry ? predictor.entry->margin_ns : 0;
}

/* A wait that was slept in, and was later than those kept for which its naps were charged with that delay. */
static void delayed_play(uint64_t wait_ns, uint64_t delay_ns)
{
	predictor_open(&predictor, predictor_site(7, 1, 2, 3), model.now_ns);
	predictor_delay(&predictor, delay_ns);
	predictor_close(&predictor, model.now_ns + wait_ns, PREDICTOR_DELAYED);
	model.now_ns += 10 * MS;
}

/* Rule 7: what is not kept moves nothing but the margin, and that when it comes twice; in a large job at once. */
static void test_ends_that_are_not_kept(void)
{
	uint64_t margin_ns, latest_ns;

	silent_begin(2);
	for (int i = 0; i < 8; i++)
		silent_play(MS, PREDICTOR_EXACT);
	margin_ns = silent_margin();
	latest_ns = predictor_latest(&predictor) - model.now_ns;
	EXPECT(margin_ns < MS / 10, "a small job: %" PRIu64, margin_ns);
	EXPECT(latest_ns > MS && latest_ns < MS + MS / 50, "%" PRIu64, latest_ns);
	for (int i = 0; i < 20; i++)
		silent_play(3 * MS, PREDICTOR_DOUBTED);
	EXPECT(silent_margin() <= margin_ns && predictor_latest(&predictor) - model.now_ns == latest_ns,
	       "what was slept in makes no wait longer");
	delayed_play(3 * MS, 200 * US);
	EXPECT(silent_margin() <= margin_ns, "once: %" PRIu64, silent_margin());
	for (int i = 0; i < 16; i++)
		silent_play(MS, PREDICTOR_DOUBTED);
	delayed_play(3 * MS, 200 * US);
	EXPECT(silent_margin() <= margin_ns, "once in a while: %" PRIu64, silent_margin());
	for (int i = 0; i < 15; i++)
		silent_play(MS, PREDICTOR_DOUBTED);
	delayed_play(3 * MS, 900 * US);
	EXPECT(silent_margin() >= margin_ns + 200 * US - US && silent_margin() < margin_ns + 300 * US,
	       "twice: larger by the lesser of both: %" PRIu64, silent_margin());
	EXPECT(predictor_latest(&predictor) - model.now_ns == latest_ns, "and nothing else");

	silent_begin(64);
	for (int i = 0; i < 8; i++)
		silent_play(MS, PREDICTOR_EXACT);
	margin_ns = silent_margin();
	delayed_play(3 * MS, 200 * US);
	EXPECT(silent_margin() >= margin_ns + 200 * US - US, "a large job: %" PRIu64, silent_margin());
}

/* Rule 9: what was short once is not waited for by all that come after it. */
static void test_an_end_that_is_outlasted(uint32_t ranks)
{
	struct predictor_nap nap;
	uint64_t landing_ns;

	silent_begin(ranks);
	for (int i = 0; i < 8; i++)
		silent_play(i == 5 ? MS / 2 : MS, PREDICTOR_EXACT);
	silent_margin();
	EXPECT(predictor_advise(&predictor, model.now_ns, 10 * MS, 0, &nap) == PREDICTOR_NAP, "known");
	landing_ns = nap.left_ns;
	for (int i = 0; i < 15; i++)
		silent_play(i == 7 ? MS / 2 : MS, PREDICTOR_DOUBTED);
	silent_margin();
	EXPECT(predictor_advise(&predictor, model.now_ns, 10 * MS, 0, &nap) == PREDICTOR_NAP, "known");
	EXPECT(nap.left_ns < landing_ns + 20 * US, "seven in a row, and one like it: %" PRIu64, nap.left_ns);
	silent_play(MS, PREDICTOR_DOUBTED);
	silent_margin();
	EXPECT(predictor_advise(&predictor, model.now_ns, 10 * MS, 0, &nap) == PREDICTOR_NAP, "known");
	EXPECT((nap.left_ns > landing_ns + MS / 2 - 10 * US) == (ranks <= PREDICTOR_SMALL),
	       "%u ranks, after the eighth in a row: %" PRIu64, ranks, nap.left_ns);
}

/* And what was long once does not hide that all have become longer. */
static void test_an_end_that_is_undercut(uint32_t ranks)
{
	uint64_t latest_ns;

	silent_begin(ranks);
	for (int i = 0; i < 8; i++)
		silent_play(i == 5 ? 5 * MS : MS, PREDICTOR_EXACT);
	for (int i = 0; i < 31; i++)
		silent_play(i == 15 ? 5 * MS : MS, PREDICTOR_DOUBTED);
	silent_margin();
	latest_ns = predictor_latest(&predictor) - model.now_ns;
	EXPECT(latest_ns >= 5 * MS, "fifteen in a row, and one like it: %" PRIu64, latest_ns);
	silent_play(MS, PREDICTOR_DOUBTED);
	silent_margin();
	latest_ns = predictor_latest(&predictor) - model.now_ns;
	EXPECT((latest_ns < MS + 20 * US) == (ranks <= PREDICTOR_SMALL), "%u ranks, after the sixteenth: %" PRIu64,
	       ranks, latest_ns);
}

/* A wait of a runtime that tells, whose last nap was too long. */
static void late_play(uint64_t wait_ns, bool whole, bool once)
{
	predictor_open(&predictor, predictor_site(7, 1, 2, 3), model.now_ns);
	predictor.whole = whole;
	predictor.once = once;
	predictor_close(&predictor, model.now_ns + wait_ns - 200 * US, PREDICTOR_LATE);
	model.now_ns += 10 * MS;
}

/* Rules 4 and 6: what came during a nap moves no landing but by the margin, and is looked after when it comes again. */
static void test_ends_during_a_nap(void)
{
	uint64_t margin_ns, latest_ns;

	silent_begin(2);
	predictor.silent = false;
	for (int i = 0; i < 8; i++)
		silent_play(MS, PREDICTOR_EXACT);
	margin_ns = silent_margin();
	latest_ns = predictor_latest(&predictor) - model.now_ns;
	late_play(MS, true, false);
	EXPECT(silent_margin() >= 2 * margin_ns, "twice the margin: %" PRIu64, silent_margin());
	EXPECT(predictor_latest(&predictor) - model.now_ns == latest_ns, "it is not kept");
	EXPECT(!predictor_wants_look(&predictor), "the last nap, once");
	late_play(MS, true, false);
	silent_margin();
	EXPECT(predictor_wants_look(&predictor), "and again");
	silent_play(MS, PREDICTOR_EXACT);
	margin_ns = silent_margin();
	EXPECT(!predictor_wants_look(&predictor), "looked at");
	late_play(MS, false, false);
	EXPECT(silent_margin() < 3 * margin_ns / 2 && predictor_wants_look(&predictor), "in the middle of the way");
	silent_play(MS, PREDICTOR_EXACT);
	margin_ns = silent_margin();
	late_play(MS, true, true);
	EXPECT(silent_margin() == margin_ns && predictor_wants_look(&predictor), "or of a nap that was all of it");
	silent_play(MS / 3, PREDICTOR_EXACT);
	EXPECT(silent_margin() <= margin_ns, "the waits are others now: %" PRIu64, silent_margin());
	for (int i = 0; i < 8; i++)
		silent_play(MS / 3, PREDICTOR_EXACT);
	margin_ns = silent_margin();
	late_play(MS / 3, true, true);
	silent_play(MS / 3, PREDICTOR_EXACT);
	EXPECT(silent_margin() >= 2 * margin_ns, "they are not: %" PRIu64, silent_margin());
}

/* Rule 5: ends that vary by a little make a margin of that size. */
static void test_a_margin_for_what_varies(void)
{
	silent_begin(2);
	for (int i = 0; i < 40; i++)
		silent_play(100 * MS + (uint64_t)(i % 2) * 2 * MS, PREDICTOR_EXACT);
	late_play(100 * MS, true, false);
	EXPECT(silent_margin() > 900 * US && silent_margin() < 1100 * US, "half of 2 ms: %" PRIu64, silent_margin());
	silent_begin(2);
	for (int i = 0; i < 40; i++)
		silent_play(100 * MS + (uint64_t)(i % 2) * 50 * MS, PREDICTOR_EXACT);
	late_play(100 * MS, true, false);
	EXPECT(silent_margin() < 100 * US, "two kinds of waits: %" PRIu64, silent_margin());
}

/* Rule 1: two ends that are alike are enough for a small job. */
static bool pair_is_known(uint32_t ranks, uint64_t first_ns, uint64_t second_ns)
{
	struct predictor_nap nap;

	silent_begin(ranks);
	silent_play(first_ns, PREDICTOR_EXACT);
	EXPECT(silent_margin() > 0 && predictor_is_new(&predictor), "one is not enough");
	silent_play(second_ns, PREDICTOR_EXACT);
	silent_margin();
	EXPECT((predictor_latest(&predictor) == UINT64_MAX) == predictor_is_new(&predictor), "known or new");
	return predictor_advise(&predictor, model.now_ns, 10 * MS, 0, &nap) == PREDICTOR_NAP;
}

static void test_two_that_are_alike(void)
{
	EXPECT(pair_is_known(2, MS, MS + MS / 17), "alike");
	EXPECT(pair_is_known(16, MS + MS / 17, MS), "alike, a job of 16");
	EXPECT(!pair_is_known(2, MS, MS + MS / 15), "not alike");
	EXPECT(!pair_is_known(17, MS, MS), "a larger job");
}

/* Rule 2: the whole way at once, of waits that are alike, where the account can afford to lose it. */
static bool sleeps_at_once(uint64_t room_ns)
{
	struct predictor_nap nap = {.ask_ns = 0};

	silent_margin();
	predictor.rich = room_ns >= ACCOUNT_KEPT_NS / 2;
	EXPECT(predictor_advise(&predictor, model.now_ns, room_ns, 0, &nap) == PREDICTOR_NAP, "known");
	EXPECT(nap.once == (nap.ask_ns == nap.left_ns) && nap.whole == nap.once, "asks for %" PRIu64 " of %" PRIu64,
	       nap.ask_ns, nap.left_ns);
	return nap.once;
}

static void test_the_whole_way_at_once(void)
{
	silent_begin(2);
	for (int i = 0; i < 16; i++) {
		silent_play(3 * MS + (uint64_t)i % 2 * 100 * US, PREDICTOR_EXACT);
		EXPECT(i < 3 || i == 15 || !sleeps_at_once(10 * MS), "after %d", i + 1);
	}
	EXPECT(sleeps_at_once(10 * MS), "16 that are alike");
	EXPECT(!sleeps_at_once(5 * MS), "two of them cost more than there is");
	EXPECT(!sleeps_at_once(4 * MS), "and the account holds less than half");
	late_play(3 * MS, true, true);
	silent_play(3 * MS, PREDICTOR_EXACT);
	EXPECT(!sleeps_at_once(10 * MS), "one that ended meanwhile");
	for (int i = 0; i < 16; i++)
		silent_play(3 * MS, PREDICTOR_EXACT);
	EXPECT(sleeps_at_once(10 * MS), "16 again");
	silent_play(4 * MS, PREDICTOR_EXACT);
	EXPECT(!sleeps_at_once(10 * MS), "another kind of wait");
}

/* What one more end is, of a wait that this rank alone looked at, and what is forgiven for it. */
static enum predictor_end looked(uint64_t wait_ns, uint64_t *ret_forgiven_ns)
{
	silent_margin();
	return predictor_looked(&predictor, model.now_ns + wait_ns, false, ret_forgiven_ns);
}

/* Rule 8. */
static void test_later_twice(void)
{
	uint64_t forgiven_ns, latest_ns, margin_ns;

	silent_begin(2);
	for (int i = 0; i < 8; i++)
		silent_play(MS, PREDICTOR_EXACT);
	margin_ns = silent_margin();
	latest_ns = predictor_latest(&predictor) - model.now_ns;
	EXPECT(!predictor_wants_look(&predictor), "known");

	delayed_play(3 * MS, 300 * US);
	EXPECT(looked(MS, &forgiven_ns) == PREDICTOR_EXACT && forgiven_ns == 0, "it was the naps: %" PRIu64,
	       forgiven_ns);
	EXPECT(looked(3 * MS, &forgiven_ns) == PREDICTOR_EXACT && forgiven_ns == 300 * US, "%" PRIu64, forgiven_ns);
	EXPECT(predictor_wants_look(&predictor), "what was later is looked at");
	silent_play(MS, PREDICTOR_EXACT);
	EXPECT(silent_margin() <= margin_ns, "once: %" PRIu64, silent_margin());
	EXPECT(predictor_latest(&predictor) - model.now_ns == latest_ns && !predictor_wants_look(&predictor),
	       "as before");

	EXPECT(predictor_looked(&predictor, model.now_ns + 3 * MS, true, &forgiven_ns) == PREDICTOR_EXACT,
	       "the whole job is believed at once");
	EXPECT(looked(3 * MS, &forgiven_ns) == PREDICTOR_LATER && forgiven_ns == 0, "%" PRIu64, forgiven_ns);
	silent_play(3 * MS, PREDICTOR_LATER);
	silent_margin();
	EXPECT(predictor_latest(&predictor) - model.now_ns == latest_ns, "once is not enough");
	EXPECT(predictor_wants_look(&predictor), "looked at again");
	EXPECT(looked(3 * MS, &forgiven_ns) == PREDICTOR_EXACT && forgiven_ns == 0, "%" PRIu64, forgiven_ns);
	silent_play(3 * MS, PREDICTOR_EXACT);
	EXPECT(silent_margin() < 10 * US, "a margin as of a new one: %" PRIu64, silent_margin());
	EXPECT(predictor_is_new(&predictor) && predictor_latest(&predictor) == UINT64_MAX,
	       "what was kept is forgotten");
	silent_play(3 * MS, PREDICTOR_EXACT);
	silent_margin();
	EXPECT(!predictor_is_new(&predictor) && predictor_latest(&predictor) - model.now_ns > 3 * MS,
	       "and it is known");
}

/* By how much ends vary is known from two of them. */
static void test_two_ends_vary(void)
{
	silent_begin(2);
	silent_play(100 * MS, PREDICTOR_EXACT);
	silent_play(101 * MS, PREDICTOR_EXACT);
	silent_margin();
	EXPECT(predictor_latest(&predictor) - model.now_ns > 103 * MS, "%" PRIu64,
	       predictor_latest(&predictor) - model.now_ns);
}

/* For how many microseconds the next wait may be slept in before a look. */
static uint64_t unlooked(void)
{
	silent_margin();
	return predictor_unlooked(&predictor) / US;
}

/* Rule 10. */
static void test_what_is_not_looked_at(void)
{
	silent_begin(16);
	EXPECT(unlooked() == 0, "nothing is known");
	silent_play(8 * MS, PREDICTOR_EXACT);
	EXPECT(unlooked() == 7000, "%" PRIu64, unlooked());
	silent_play(16 * MS, PREDICTOR_EXACT);
	EXPECT(unlooked() == 7000, "the earliest: %" PRIu64, unlooked());
	silent_play(4 * MS, PREDICTOR_DOUBTED);
	EXPECT(unlooked() == 3500, "kept or not: %" PRIu64, unlooked());
	silent_play(32 * MS, PREDICTOR_DOUBTED);
	EXPECT(unlooked() == 7000, "the latest of those: %" PRIu64, unlooked());
	silent_play(2 * MS, PREDICTOR_DOUBTED);
	EXPECT(unlooked() == 0, "short: %" PRIu64, unlooked());
	silent_play(8 * MS, PREDICTOR_LATER);
	EXPECT(unlooked() == 0, "later: %" PRIu64, unlooked());

	silent_begin(16);
	silent_play(8 * MS, PREDICTOR_DOUBTED);
	EXPECT(unlooked() == 7000, "none is kept: %" PRIu64, unlooked());
	silent_begin(17);
	silent_play(8 * MS, PREDICTOR_EXACT);
	EXPECT(unlooked() == 0, "a larger job: %" PRIu64, unlooked());
}

static uint64_t told_apart_play(uint64_t caller, uint64_t wait_ns)
{
	uint64_t latest_ns;

	predictor_open(&predictor, predictor_site(caller, 1, 2, 3), model.now_ns);
	latest_ns = predictor_latest(&predictor) - model.now_ns;
	predictor_close(&predictor, model.now_ns + wait_ns, PREDICTOR_EXACT);
	model.now_ns += 10 * MS;
	return latest_ns;
}

/* Two calls in turn: the one after the other is not the other after the one. */
static void test_two_calls_in_turn(void)
{
	silent_begin(2);
	for (int i = 0; i < 8; i++) {
		told_apart_play(7, 3 * MS);
		told_apart_play(8, MS);
	}
	EXPECT(told_apart_play(7, 3 * MS) > 3 * MS, "the one");
	EXPECT(told_apart_play(8, MS) < 2 * MS, "the other");
}

static void test_first_margins(void)
{
	silent_begin(64);
	for (int i = 0; i < 4; i++)
		silent_play(MS, PREDICTOR_EXACT);
	EXPECT(silent_margin() == MS / 4, "a quarter of a tree's wait: %" PRIu64, silent_margin());
	EXPECT(!predictor_is_new(&predictor), "known");
	predictor_open(&predictor, predictor_site(8, 1, 2, 3), model.now_ns);
	EXPECT(predictor_is_new(&predictor), "another");
	predictor_drop(&predictor);
	EXPECT(!predictor_is_new(&predictor), "nothing is learned of it");
	silent_begin(64);
	for (int i = 0; i < 4; i++) {
		silent_margin();
		EXPECT(predictor_is_new(&predictor), "%d looks in vain", i);
		silent_play(30 * MS, PREDICTOR_DOUBTED);
	}
	silent_margin();
	EXPECT(!predictor_is_new(&predictor), "too long to be looked at");
}

int main(int argc, char **argv)
{
	uint64_t waits = argc > 1 ? strtoull(argv[1], NULL, 10) : WAITS;

	test_account();
	test_debt();
	test_shared();
	test_parts();
	test_phases();
	test_ends_that_are_not_kept();
	test_an_end_that_is_outlasted(16);
	test_an_end_that_is_outlasted(17);
	test_an_end_that_is_undercut(16);
	test_an_end_that_is_undercut(17);
	test_ends_during_a_nap();
	test_a_margin_for_what_varies();
	test_two_that_are_alike();
	test_the_whole_way_at_once();
	test_later_twice();
	test_two_ends_vary();
	test_what_is_not_looked_at();
	test_two_calls_in_turn();
	test_first_margins();
	for (size_t i = 0; i < GENERATORS && CHECK_HOLDING; i++)
		if (argc < 3 || strcmp(argv[2], generators[i].name) == 0)
			generator_play(&generators[i], waits);
	return CHECK_RESULT;
}
