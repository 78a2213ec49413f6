/*
 * The budget law under a simulated clock: whatever the waits and the node are like, what is asked for plus the exit
 * latency stays within B(w), and a rung that does not keep its promise is given up and tried again later.
 */
#include "preload/budget/ladder.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tests/lib/check.h"

#define WAITS     100000
#define BIT(rung) (1u << (rung))

static const struct ladder_policy nap_policy = {
        .rungs = BIT(MPIWAIT_RUNG_PAUSE) | BIT(MPIWAIT_RUNG_NAP),
        .spin_ns = 20000,
        .relative_ppm = 62500,
        .max_ns = 100000,
};

static uint64_t random_state = 42;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static struct ladder ladder_make(uint64_t exit_ns)
{
	struct ladder ladder = {0};

	ladder.rung[MPIWAIT_RUNG_YIELD].exit_ns = 300;
	ladder.rung[MPIWAIT_RUNG_NAP].exit_ns = exit_ns;
	ladder.rung[MPIWAIT_RUNG_NAP].timed = true;
	return ladder;
}

static struct ladder_moment moment_make(uint64_t now_ns, uint64_t waited_ns)
{
	return (struct ladder_moment){.now_ns = now_ns, .waited_ns = waited_ns, .cap_ns = UINT64_MAX};
}

static void test_budget(void)
{
	struct ladder_policy policy = nap_policy;

	EXPECT(ladder_budget(&policy, 19999) == 0, "no budget while spinning");
	EXPECT(ladder_budget(&policy, 160000) == 10000, "relative");
	EXPECT(ladder_budget(&policy, 12800000) == 100000, "max");
	EXPECT(ladder_budget(&policy, 25600000) == 200000, "one part in 128");
	EXPECT(ladder_budget(&policy, UINT64_MAX) == 400000, "saturates");
	policy.absolute_ns = 500;
	EXPECT(ladder_budget(&policy, 160000) == 10500, "absolute");
	policy.relative_ppm = 0;
	EXPECT(ladder_budget(&policy, UINT64_MAX) == 500, "absolute only");
}

/* Pareto with alpha 1: most waits are short, some are a thousand times as long. */
static uint64_t heavy_tail(uint64_t least_ns)
{
	uint64_t divisor = random_next() % 100000 + 1;

	return least_ns * 100000 / divisor;
}

/* One wait on a node whose naps are late by the given typical time, more in one of ten. Returns the overshoot. */
static uint64_t wait_play(struct ladder *ladder, uint64_t *now_ns, uint64_t length_ns, uint64_t late_ns)
{
	uint64_t began_ns = *now_ns, end_ns = began_ns + length_ns;

	while (*now_ns < end_ns) {
		struct ladder_moment moment = moment_make(*now_ns, *now_ns - began_ns);
		uint64_t exit_ns = ladder->rung[MPIWAIT_RUNG_NAP].exit_ns;
		struct ladder_action action = ladder_next(ladder, &nap_policy, moment);
		uint64_t actual_ns = 100;

		EXPECT(action.budget_ns == ladder_budget(&nap_policy, moment.waited_ns), "budget");
		if (action.rung == MPIWAIT_RUNG_NAP) {
			exit_ns = ladder->rung[MPIWAIT_RUNG_NAP].exit_ns;
			EXPECT(action.ask_ns + exit_ns <= action.budget_ns, "%" PRIu64 " + %" PRIu64, action.ask_ns,
			       exit_ns);
			EXPECT(exit_ns <= action.budget_ns / 2, "%" PRIu64, exit_ns);
			actual_ns = action.ask_ns + late_ns / 2 + random_next() % (late_ns / 2 + 1);
			if (random_next() % 10 == 0)
				actual_ns += late_ns;
		} else {
			EXPECT(action.rung == MPIWAIT_RUNG_PAUSE && action.ask_ns == 0, "rung %d", (int)action.rung);
		}
		*now_ns += actual_ns;
		ladder_learn(ladder, action, actual_ns, *now_ns);
	}
	return *now_ns - end_ns;
}

static void test_law(void)
{
	struct ladder ladder = ladder_make(10000);
	uint64_t now_ns = 1000000000, over_ns = 0, total_ns = 0;

	for (int i = 0; i < WAITS; i++) {
		uint64_t length_ns = heavy_tail(2000);
		uint64_t late_ns = wait_play(&ladder, &now_ns, length_ns, 5000);

		EXPECT(late_ns <= ladder_budget(&nap_policy, length_ns) + 10000,
		       "a wait of %" PRIu64 " ended %" PRIu64 " late", length_ns, late_ns);
		EXPECT(length_ns >= 20000 || late_ns <= 100, "a short wait ended %" PRIu64 " late", late_ns);
		over_ns += late_ns;
		total_ns += length_ns;
	}
	EXPECT(over_ns * 16 <= total_ns, "all in all %" PRIu64 " of %" PRIu64, over_ns, total_ns);
	EXPECT(ladder.rung[MPIWAIT_RUNG_NAP].exit_ns > 4000 && ladder.rung[MPIWAIT_RUNG_NAP].exit_ns < 10500,
	       "the percentile went to %" PRIu64, ladder.rung[MPIWAIT_RUNG_NAP].exit_ns);
}

static int naps_play(struct ladder *ladder, uint64_t *now_ns, uint64_t late_ns, int looks)
{
	int naps = 0;

	for (int i = 0; i < looks; i++) {
		struct ladder_action action = ladder_next(ladder, &nap_policy, moment_make(*now_ns, 10000000));
		uint64_t actual_ns = action.rung == MPIWAIT_RUNG_NAP ? action.ask_ns + late_ns : 1000;

		naps += action.rung == MPIWAIT_RUNG_NAP;
		*now_ns += actual_ns;
		ladder_learn(ladder, action, actual_ns, *now_ns);
	}
	return naps;
}

static void test_late_rung_is_benched(void)
{
	struct ladder ladder = ladder_make(10000);
	uint64_t now_ns = 1000000000;
	int naps;

	EXPECT(naps_play(&ladder, &now_ns, 5000, 1000) == 1000, "a punctual rung is always used");
	naps = naps_play(&ladder, &now_ns, 4000000, 100000);
	EXPECT(naps > 4 && naps < 80, "a rung that is late by 4 ms was used %d times in 100 ms of looks", naps);
	now_ns += UINT64_C(1300000000);
	EXPECT(naps_play(&ladder, &now_ns, 5000, 1000) == 1000, "it comes back when its bench is over");
	EXPECT(ladder.rung[MPIWAIT_RUNG_NAP].benches == 0, "and is trusted again");
}

/* Too slow for any budget, but not late by more than one: a node that is busy for a while, or for good. */
static void test_slow_exit_is_tried_again(void)
{
	struct ladder ladder = ladder_make(10000);
	uint64_t now_ns = 1000000000;
	int naps;

	naps = naps_play(&ladder, &now_ns, 90000, 1000000);
	EXPECT(ladder.rung[MPIWAIT_RUNG_NAP].exit_ns > 50000, "an exit latency of 90 us was not seen");
	EXPECT(naps > 20 && naps < 500, "it was used %d times in a second of looks", naps);
	now_ns += UINT64_C(1300000000);
	EXPECT(naps_play(&ladder, &now_ns, 5000, 100) == 100, "it is tried again, and in use when it has improved");
}

/* After a burst of late naps, when only short waits come, in which the estimate would never fit. */
static void test_a_burst_is_forgotten(void)
{
	struct ladder ladder = ladder_make(10000);
	uint64_t now_ns = 1000000000;
	int naps = 0;

	ladder.rung[MPIWAIT_RUNG_NAP].exit_ns = 160000;
	for (int i = 0; i < 40; i++, now_ns += 1000000)
		naps += naps_play(&ladder, &now_ns, 5000, 1000) > 0;
	EXPECT(naps >= 30, "there were naps in %d of 40 waits", naps);
	EXPECT(ladder.rung[MPIWAIT_RUNG_NAP].benches == 0, "and it is trusted again");
}

static void test_choice(void)
{
	struct ladder ladder = ladder_make(10000);
	struct ladder_policy policy = nap_policy;
	struct ladder_moment moment = moment_make(1, 10000);

	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_PAUSE, "spins at first");
	moment.shared = true;
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_YIELD, "yields on shared cores");
	moment.waited_ns = 1000000;
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_NAP, "naps there too, later");
	moment.cap_ns = 10000;
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_YIELD, "the cap is too tight for the nap");
	EXPECT(ladder_next(&ladder, &policy, moment).budget_ns == 10000, "capped");
	moment.shared = false;
	policy.rungs = BIT(MPIWAIT_RUNG_PAUSE) | BIT(MPIWAIT_RUNG_YIELD);
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_YIELD, "the yield policy yields");
	moment.waited_ns = 10000;
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_PAUSE, "after its spin phase");
	moment.waited_ns = 1000000;
	moment.locked = true;
	policy.rungs |= BIT(MPIWAIT_RUNG_NAP);
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_YIELD, "nothing deeper under a lock");
	EXPECT(ladder_next(&ladder, &nap_policy, moment).rung == MPIWAIT_RUNG_PAUSE, "no nap under a lock");
	moment.locked = false;
	policy.rungs = BIT(MPIWAIT_RUNG_PAUSE) | BIT(MPIWAIT_RUNG_UMWAIT);
	ladder.rung[MPIWAIT_RUNG_UMWAIT] = (struct ladder_latency){.timed = true, .holds_core = true, .most_ns = 3000};
	moment.waited_ns = 1000000;
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_UMWAIT, "sleeps on its own core");
	EXPECT(ladder_next(&ladder, &policy, moment).ask_ns == 3000, "no longer than the rung can");
	moment.shared = true;
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_YIELD, "a shared core is not held");
	moment.shared = false;
	policy.rungs = 0;
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_PAUSE, "nothing else is allowed");
}

/* A pace, and the clock that goes with it. */
struct gaps {
	struct ladder_pace pace;
	uint64_t now_ns;
};

static struct gaps gaps_make(void)
{
	return (struct gaps){{.polled = {.ns = 1000}, .dozed = {.ns = 2000}}, 1000000};
}

static enum ladder_sign gap_play(struct gaps *gaps, bool dozed, uint64_t gap_ns)
{
	gaps->now_ns += gap_ns;
	return ladder_gap(&gaps->pace, dozed, gaps->now_ns, gap_ns);
}

/* How often w begins anew. */
static int gaps_play(struct gaps *gaps, uint64_t gap_ns, int count)
{
	int restarts = 0;

	for (int i = 0; i < count; i++)
		restarts += gap_play(gaps, false, gap_ns) == LADDER_PROGRESS;
	return restarts;
}

static bool gaps_hold(const struct gaps *gaps)
{
	return gaps->now_ns < gaps->pace.held_ns;
}

static void test_gap(void)
{
	struct gaps gaps = gaps_make();

	EXPECT(gaps_play(&gaps, 100, 1000) == 0, "the usual");
	EXPECT(gaps.pace.polled.ns < 150, "the usual is %" PRIu64, gaps.pace.polled.ns);
	EXPECT(gap_play(&gaps, false, 5000) == LADDER_GAP && !gaps_hold(&gaps), "one may be an interrupt");
	EXPECT(gaps_play(&gaps, 100, 40) == 0 && gaps_play(&gaps, 5000, 1) == 0, "and one later too");
	EXPECT(!gaps_hold(&gaps), "they are too far apart");
	EXPECT(gaps_play(&gaps, 100, 30) == 0 && gaps_play(&gaps, 5000, 1) == 0, "the second within 32");
	EXPECT(gaps_hold(&gaps), "may be work: no doze for a while");
	EXPECT(gaps_play(&gaps, 100, 499) == 0 && gaps_hold(&gaps), "for 50 us");
	EXPECT(gaps_play(&gaps, 100, 2) == 0 && !gaps_hold(&gaps), "and no longer");
	EXPECT(gaps_play(&gaps, 5000, 1) == 0 && gaps_play(&gaps, 5000, 1) == 0 && gaps_hold(&gaps), "two again");
	EXPECT(gaps_play(&gaps, 100, 400) == 0 && gaps_play(&gaps, 5000, 1) == 0, "a third may be an interrupt too");
	EXPECT(gaps_play(&gaps, 100, 499) == 0 && gaps_hold(&gaps), "but begins them anew");
	EXPECT(gaps_play(&gaps, 5000, 1) == 1, "a fourth in these is work");
	EXPECT(gaps_play(&gaps, 100, 400) == 0 && gaps_play(&gaps, 5000, 1) == 1, "and so is each after it");
	EXPECT(gaps_play(&gaps, 100, 600) == 0 && gaps_play(&gaps, 5000, 3) == 0, "until it was quiet");
	EXPECT(gaps_play(&gaps, 800, 100) == 0, "nothing below 0.9 us is");
	gaps = gaps_make();
	EXPECT(gaps_play(&gaps, 20000, 200) == 197, "polls that all work do not look like waiting");
	gaps = gaps_make();
	EXPECT(gaps_play(&gaps, 200000, 200) == 197, "nor do those that take longer than the hold");
	gaps = gaps_make();
	EXPECT(gaps_play(&gaps, 7000, 1000) < 250, "slow polls are no work, once they are known");
}

/* As seen of a 1 MiB Allreduce over shared memory: idle polls of 350 ns, and pieces of 1.3 us. */
static void test_small_pieces(void)
{
	struct gaps gaps = gaps_make();

	gaps_play(&gaps, 350, 1000);
	EXPECT(gaps_play(&gaps, 1300, 1) == 0 && gaps_play(&gaps, 350, 3) == 0, "a piece, or nothing");
	EXPECT(gaps_play(&gaps, 1300, 1) == 0 && !gaps_hold(&gaps), "four later it means nothing");
	EXPECT(gaps_play(&gaps, 350, 2) == 0 && gaps_play(&gaps, 1300, 1) == 0, "the second within four");
	EXPECT(gaps_hold(&gaps), "is perhaps work");
	EXPECT(gaps_play(&gaps, 350, 2) == 0 && gaps_play(&gaps, 1300, 1) == 0, "as is the third");
	EXPECT(gaps_play(&gaps, 350, 2) == 0 && gaps_play(&gaps, 1300, 1) == 1, "and the fourth is");
	gaps_play(&gaps, 350, 200);
	EXPECT(gap_play(&gaps, true, 4500) == LADDER_GAP, "something was there after a doze");
	EXPECT(gaps_play(&gaps, 350, 1) == 0 && gaps_play(&gaps, 1300, 1) == 0 && gaps_hold(&gaps), "more of it");
	EXPECT(gaps_play(&gaps, 350, 1) == 0 && gaps_play(&gaps, 1300, 2) == 1, "and more");
}

static void test_late_is_counted(void)
{
	struct ladder ladder = ladder_make(10000);
	struct ladder_action action = {.rung = MPIWAIT_RUNG_NAP, .ask_ns = 40000, .budget_ns = 50000};

	EXPECT(ladder_learn(&ladder, action, 50000, 1) == 0, "just in time");
	EXPECT(ladder_learn(&ladder, action, 50001, 1) == 1, "late by one");
	EXPECT(ladder_learn(&ladder, action, 5, 1) == 0, "woken early by a signal");
}

/* How many naps of that many looks, each of which ends so late. */
static int lateness_play(bool shared, int looks, uint64_t (*late_ns)(int look))
{
	struct ladder ladder = ladder_make(10000);
	uint64_t now_ns = 1000000000;
	int naps = 0;

	for (int i = 0; i < looks; i++) {
		struct ladder_moment moment = moment_make(now_ns, 10000000);
		struct ladder_action action;
		uint64_t actual_ns = 1000;

		moment.shared = shared;
		action = ladder_next(&ladder, &nap_policy, moment);
		if (action.rung == MPIWAIT_RUNG_NAP) {
			actual_ns = action.ask_ns + late_ns(i);
			naps++;
		}
		now_ns += actual_ns;
		ladder_learn(&ladder, action, actual_ns, now_ns);
	}
	return naps;
}

/* Of ten sleeps one comes to a free core at once, the others stand in its queue for milliseconds. */
static uint64_t late_by_queue_ns(int look)
{
	return look % 10 == 0 ? 8000 : 3000000;
}

static uint64_t late_by_tick_ns(int look)
{
	(void)look;
	return 10000000;
}

static void test_queue_of_a_shared_core(void)
{
	int own = lateness_play(false, 1000, late_by_queue_ns), shared = lateness_play(true, 1000, late_by_queue_ns);

	EXPECT(own < 100, "a rung that is so late on a core of its own was used %d times", own);
	EXPECT(shared == 1000, "where the core is shared, it is not the rung's fault: used %d times", shared);
}

/* A timer that knows ticks of 10 ms only is as late on a shared core, and is not used there either. */
static void test_late_rung_of_a_shared_core(void)
{
	int naps = lateness_play(true, 100000, late_by_tick_ns);

	EXPECT(naps < 1000, "used %d times of 100000", naps);
}

static void test_woken(void)
{
	struct ladder ladder = ladder_make(6000);
	struct ladder_policy policy = nap_policy;
	struct ladder_moment moment = moment_make(0, 19999);
	struct ladder_action action;

	policy.rungs |= BIT(MPIWAIT_RUNG_EVENT);
	ladder.rung[MPIWAIT_RUNG_EVENT] = (struct ladder_latency){.timed = true, .woken = true, .exit_ns = 30000};
	moment.woken_ns = 10000000;
	EXPECT(ladder_next(&ladder, &policy, moment).rung == MPIWAIT_RUNG_PAUSE, "in the spin phase");
	moment.waited_ns = 29999;
	EXPECT(ladder_next(&ladder, &policy, moment).rung != MPIWAIT_RUNG_EVENT, "before waking pays");
	moment.waited_ns = 30000;
	action = ladder_next(&ladder, &policy, moment);
	EXPECT(action.rung == MPIWAIT_RUNG_EVENT && action.ask_ns == 10000000, "proven");
	EXPECT(ladder_learn(&ladder, action, 40000, 0) == 0, "woken early is not late");
	EXPECT(ladder.rung[MPIWAIT_RUNG_EVENT].exit_ns == 30000, "and says nothing of the timer");
	ladder_learn(&ladder, action, 10000000, 0);
	EXPECT(ladder.rung[MPIWAIT_RUNG_EVENT].exit_ns < 30000, "a timeout does");
	moment.cap_ns = 10000;
	EXPECT(ladder_next(&ladder, &policy, moment).rung != MPIWAIT_RUNG_EVENT, "others wait for this call");
	moment.cap_ns = UINT64_MAX;
	moment.woken_ns = 0;
	moment.waited_ns = 10000000;
	action = ladder_next(&ladder, &policy, moment);
	EXPECT(action.rung == MPIWAIT_RUNG_EVENT && action.ask_ns <= 100000 - ladder.rung[action.rung].exit_ns,
	       "unproven, it keeps the budget");
	moment.locked = true;
	moment.woken_ns = 10000000;
	EXPECT(ladder_next(&ladder, &policy, moment).rung < MPIWAIT_RUNG_NAP, "others wait for the lock");
}

int main(void)
{
	test_budget();
	test_choice();
	test_gap();
	test_small_pieces();
	test_late_is_counted();
	test_law();
	test_late_rung_is_benched();
	test_slow_exit_is_tried_again();
	test_a_burst_is_forgotten();
	test_queue_of_a_shared_core();
	test_late_rung_of_a_shared_core();
	test_woken();
	return CHECK_RESULT;
}
