/*
 * What a rank does before and after a forecast landing, by the rungs that there are, under a simulated clock: the real
 * wait engine, and rungs that only move the clock and are counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "preload/wait/act.h"
#include "preload/wait/entry.h"
#include "preload/wait/wait.h"
#include "tests/lib/check.h"

#define US       UINT64_C(1000)
#define MS       UINT64_C(1000000)
#define POLL_NS  UINT64_C(400)
#define NAP_EXIT (5 * US)
#define WAKE_NS  (30 * US) /* by a message */
#define LEARNED  60        /* waits of a kind after which it is known */
#define SLOWDOWN 10000     /* millionths */

struct process process = {.hooks = MPIWAIT_HOOK_OPAL};
struct process_guard acting = {PROCESS_ACTS};
struct process_guard *process_guard = &acting;

/* Of the wait that is played. */
static struct {
	uint64_t now_ns, began_ns, end_ns;
	uint64_t slept_until_ns;                                       /* the latest nap or sleep for an event */
	uint32_t dozes[MPIWAIT_RUNG_COUNT], after[MPIWAIT_RUNG_COUNT]; /* in all; since that */
	uint64_t asked_ns;                                             /* the latest, of nap and event */
	uint64_t event_asked_ns;                                       /* the first of this wait, 0: none */
	uint64_t lowered_ns, restored_ns;                              /* 0: not in this wait */
	uint32_t lowerings;
	uint64_t gap_at_ns, gap_ns; /* of the wait, between two polls */
	long preemptions;           /* of the thread so far */
	bool taken;                 /* the gap is one */
	uint32_t late_nap;          /* of the wait: that one ends by late_ns later */
	uint64_t late_ns;
} model;

static struct mpiwait_slot slot;
static struct predictor predictors[MPIWAIT_LANES];
static uintptr_t frame[3], caller;
static uint64_t poll_ns = POLL_NS; /* more in the tests of long waits */

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
	process.policy.rungs &= ~(1u << MPIWAIT_RUNG_EVENT);
}

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	ret_now->tv_sec = (time_t)(model.now_ns / NS_PER_S);
	ret_now->tv_nsec = (long)(model.now_ns % NS_PER_S);
	return 0;
}

int getrusage(__rusage_who_t who, struct rusage *ret_usage)
{
	*ret_usage = (struct rusage){.ru_nivcsw = who == RUSAGE_THREAD ? model.preemptions : 0};
	return 0;
}

static void count(enum mpiwait_rung rung)
{
	model.dozes[rung]++;
	model.after[rung]++;
}

/* Nothing comes in an idle poll, so what there is after it is what there was. */
static void sleep_count(enum mpiwait_rung rung, uint64_t ask_ns)
{
	model.asked_ns = ask_ns;
	count(rung);
	memset(model.after, 0, sizeof(model.after));
}

static void doze_pause(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns, (void)thread;
	count(MPIWAIT_RUNG_PAUSE);
}

static void doze_yield(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns, (void)thread;
	count(MPIWAIT_RUNG_YIELD);
	model.now_ns += 250;
}

static void doze_umwait(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)thread;
	count(MPIWAIT_RUNG_UMWAIT);
	model.now_ns += ask_ns + 400;
}

static void doze_mwaitx(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)thread;
	count(MPIWAIT_RUNG_MWAITX);
	model.now_ns += ask_ns + 400;
}

static void doze_nap(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)thread;
	sleep_count(MPIWAIT_RUNG_NAP, ask_ns);
	model.now_ns += ask_ns + NAP_EXIT + (model.dozes[MPIWAIT_RUNG_NAP] == model.late_nap ? model.late_ns : 0);
}

static void doze_event(uint64_t ask_ns, struct rung_thread *thread)
{
	uint64_t timeout_ns = model.now_ns + ask_ns;

	sleep_count(MPIWAIT_RUNG_EVENT, ask_ns);
	if (model.event_asked_ns == 0)
		model.event_asked_ns = ask_ns;
	thread->event = model.end_ns < timeout_ns ? EVENT_WOKEN : EVENT_TIMEOUT;
	model.now_ns = thread->event == EVENT_WOKEN ? model.end_ns + WAKE_NS : timeout_ns + NAP_EXIT;
}

const struct rung rung_table[MPIWAIT_RUNG_COUNT] = {
        [MPIWAIT_RUNG_PAUSE] = {.instant = true, .doze = doze_pause},
        [MPIWAIT_RUNG_YIELD] = {.exit_ns = 300, .doze = doze_yield},
        [MPIWAIT_RUNG_UMWAIT] = {.exit_ns = 500, .timed = true, .holds_core = true, .doze = doze_umwait},
        [MPIWAIT_RUNG_MWAITX] = {.exit_ns = 500, .timed = true, .holds_core = true, .doze = doze_mwaitx},
        [MPIWAIT_RUNG_NAP] = {.exit_ns = 10000, .timed = true, .doze = doze_nap},
        [MPIWAIT_RUNG_EVENT] = {.exit_ns = 10000, .timed = true, .woken = true, .doze = doze_event},
        [MPIWAIT_RUNG_PSTATE] = {0},
};

void rung_pstate_hold(struct rung_thread *thread, uint64_t now_ns, bool low)
{
	if (low && !thread->pstate.asked) {
		model.lowered_ns = now_ns;
		model.lowerings++;
	}
	if (!low && thread->pstate.asked)
		model.restored_ns = now_ns;
	thread->pstate.asked = low;
}

void rung_leave(struct rung_thread *thread)
{
	thread->pstate.asked = false;
}

/* A rank of which nothing is known yet, with those rungs besides pause. */
static void rank_begin(uint32_t rungs, bool shared)
{
	memset(&slot, 0, sizeof(slot));
	memset(&wait_self, 0, sizeof(wait_self));
	memset(&model, 0, sizeof(model));
	memset(predictors, 0, sizeof(predictors));
	slot.size = 2;
	caller = 1;
	process.silent = false;
	model.now_ns = NS_PER_S;
	process.slot = &slot;
	process.burst = 1;
	process.pstate_after_ns = UINT64_MAX;
	process.predictors = predictors;
	process.config = (struct config){.shared = shared, .event_ns = 10 * MS, .rma_ns = 10000};
	process.policy = (struct ladder_policy){
	        .rungs = 1u << MPIWAIT_RUNG_PAUSE | rungs, .spin_ns = 20000, .relative_ppm = 62500, .max_ns = 100000};
	account_open(&process.account, model.now_ns, SLOWDOWN, 2);
}

/* The same with naps and a silent runtime, half a second before the job looks. */
static void silent_begin(void)
{
	rank_begin(1u << MPIWAIT_RUNG_NAP, false);
	process.silent = true;
	process.burst = FORESIGHT_VAIN;
	model.now_ns = 2 * FORESIGHT_LOOK_EVERY_NS + FORESIGHT_LOOK_NS;
}

/* Nothing is polled for a while. */
static void gap_play(void)
{
	if (model.gap_ns == 0 || model.now_ns < model.began_ns + model.gap_at_ns)
		return;
	model.now_ns += model.gap_ns;
	model.gap_ns = 0;
	model.preemptions += model.taken;
	memset(model.after, 0, sizeof(model.after));
}

/* A wait of that length after a millisecond of work. Returns how late its end was noticed. */
static uint64_t wait_play(uint64_t wait_ns)
{
	uint32_t mode;

	model.now_ns += MS;
	model.began_ns = model.now_ns;
	model.end_ns = model.now_ns + wait_ns;
	model.lowered_ns = model.restored_ns = model.event_asked_ns = 0;
	memset(model.dozes, 0, sizeof(model.dozes));
	memset(model.after, 0, sizeof(model.after));
	frame[1] = caller;
	mode = wait_enter(ROW_Recv, CALL_WAIT, false, (uintptr_t)frame);
	for (;;) {
		model.now_ns += poll_ns;
		gap_play();
		if (model.now_ns >= model.end_ns)
			break;
		if (++wait_self.polls >= WAIT_FREE_POLLS)
			wait_idle(&wait_self, MPIWAIT_HOOK_OPAL);
	}
	wait_self.progressed = 1;
	wait_leave(mode);
	wait_self.progressed = 0;
	return model.now_ns - model.end_ns;
}

static void waits_learn(uint64_t wait_ns)
{
	for (int i = 0; i < LEARNED; i++)
		wait_play(wait_ns);
}

/* An instruction that rests the core, between the landing and the message. */
static void test_the_core_rests_after_the_landing(enum mpiwait_rung rung)
{
	uint64_t late_ns, forecasts, late;

	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << rung, false);
	waits_learn(MS);
	forecasts = slot.lane[0].forecasts;
	late = slot.lane[0].late;
	for (int i = 0; i < LEARNED; i++) {
		late_ns = wait_play(MS + (uint64_t)i % 4 * US);
		EXPECT(model.dozes[MPIWAIT_RUNG_NAP] > 0, "%s, wait %d: no nap", config_rung_names[rung], i);
		EXPECT(model.after[rung] > 0, "%s, wait %d: no rest", config_rung_names[rung], i);
		EXPECT(model.after[MPIWAIT_RUNG_PAUSE] == 0, "%s, wait %d: %u polls without a rest",
		       config_rung_names[rung], i, model.after[MPIWAIT_RUNG_PAUSE]);
		EXPECT(late_ns <= 1400 + POLL_NS, "%s, wait %d: %" PRIu64 " late", config_rung_names[rung], i, late_ns);
	}
	EXPECT(slot.lane[0].forecasts > forecasts, "%" PRIu64 " forecasts", slot.lane[0].forecasts);
	EXPECT(slot.lane[0].late == late, "%" PRIu64 " naps that were late", slot.lane[0].late - late);
	EXPECT(slot.lane[0].late_ns > 0, "nothing charged for what came in a rest");
}

/* Nothing that takes a time, once the account cannot pay for it. */
static void test_no_rest_that_cannot_be_paid(void)
{
	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_UMWAIT, false);
	waits_learn(MS);
	process.account.spent_ns[ACCOUNT_LADDER] = UINT64_MAX / 2;
	wait_play(MS);
	EXPECT(model.dozes[MPIWAIT_RUNG_NAP] > 0, "forecasts have their own purse");
	EXPECT(model.dozes[MPIWAIT_RUNG_UMWAIT] == 0 && model.after[MPIWAIT_RUNG_PAUSE] > 0, "%u rests",
	       model.dozes[MPIWAIT_RUNG_UMWAIT]);
}

/* Others want the core: after the landing too. */
static void test_a_shared_core_is_yielded_after_the_landing(void)
{
	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_UMWAIT, true);
	waits_learn(MS);
	for (int i = 0; i < LEARNED; i++) {
		wait_play(MS);
		EXPECT(model.dozes[MPIWAIT_RUNG_NAP] > 0 && model.after[MPIWAIT_RUNG_YIELD] > 0, "wait %d: %u, %u", i,
		       model.dozes[MPIWAIT_RUNG_NAP], model.after[MPIWAIT_RUNG_YIELD]);
		EXPECT(model.dozes[MPIWAIT_RUNG_UMWAIT] == 0 && model.after[MPIWAIT_RUNG_PAUSE] == 0,
		       "wait %d keeps the core", i);
	}
}

/* A rank that only polls, since its account is empty, learns from losing its core that others want it; not from a gap
 * in which the runtime was busy. A while later the core is its own again. */
static void test_a_core_that_was_taken_is_yielded(bool taken, uint64_t gap_ns)
{
	bool yields = taken && gap_ns >= WAIT_SLICE_NS;

	rank_begin(1u << MPIWAIT_RUNG_NAP, false);
	process.account.spent_ns[ACCOUNT_WHOLE] = UINT64_MAX / 2;
	wait_play(MS);
	EXPECT(model.dozes[MPIWAIT_RUNG_PAUSE] > 100 && model.dozes[MPIWAIT_RUNG_NAP] == 0, "it polls");
	model.gap_at_ns = MS;
	model.gap_ns = gap_ns;
	model.taken = taken;
	wait_play(8 * MS);
	EXPECT((model.after[MPIWAIT_RUNG_YIELD] > 100) == yields, "%u yields", model.after[MPIWAIT_RUNG_YIELD]);
	EXPECT((model.after[MPIWAIT_RUNG_PAUSE] > 100) == !yields, "%u polls", model.after[MPIWAIT_RUNG_PAUSE]);
	wait_play(MS);
	EXPECT((model.dozes[MPIWAIT_RUNG_YIELD] > 100) == yields, "%u yields", model.dozes[MPIWAIT_RUNG_YIELD]);
	model.now_ns += WAIT_SHARED_NS;
	wait_play(MS);
	EXPECT(model.dozes[MPIWAIT_RUNG_YIELD] <= 1, "still %u yields", model.dozes[MPIWAIT_RUNG_YIELD]);
}

/* A message wakes: the rank sleeps until the landing at once, and is awake when the message comes. */
static void test_a_sleep_for_the_message_ends_at_the_landing(void)
{
	uint64_t late_ns, charged_ns;

	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_EVENT, false);
	for (int i = 0; i < 40 * LEARNED; i++) /* one in eight of those that are not forecast tries it */
		wait_play((1 + (uint64_t)i * 7 % 11) * 300 * US);
	waits_learn(5 * MS);
	for (int i = 0; i < LEARNED; i++) {
		late_ns = wait_play(5 * MS);
		EXPECT(model.dozes[MPIWAIT_RUNG_EVENT] > 0 && model.dozes[MPIWAIT_RUNG_NAP] == 0, "wait %d: %u, %u", i,
		       model.dozes[MPIWAIT_RUNG_EVENT], model.dozes[MPIWAIT_RUNG_NAP]);
		EXPECT(model.event_asked_ns > 4 * MS && model.event_asked_ns < 5 * MS, "wait %d: %" PRIu64, i,
		       model.event_asked_ns);
		EXPECT(late_ns <= POLL_NS, "wait %d: %" PRIu64 " late", i, late_ns);
	}
	charged_ns = slot.lane[0].late_ns;
	late_ns = wait_play(2 * MS);
	EXPECT(late_ns <= WAKE_NS + POLL_NS, "what comes early costs the wake-up: %" PRIu64, late_ns);
	EXPECT(slot.lane[0].late_ns - charged_ns <= 2 * WAKE_NS, "%" PRIu64 " charged",
	       slot.lane[0].late_ns - charged_ns);
	wait_play(5 * MS);
	EXPECT(model.event_asked_ns > MS && model.event_asked_ns < 2 * MS,
	       "it is learned as an end at 2 ms, not at the beginning of the sleep: %" PRIu64, model.event_asked_ns);
}

/* The clock is lowered only for what is forecast to last longer than two changes, and is back before the end. */
static void test_the_clock_is_lowered_for_long_forecasts_alone(void)
{
	poll_ns = 4 * US;
	rank_begin(0, false);
	process.pstate_after_ns = 5 * MS;
	wait_play(50 * MS);
	EXPECT(model.lowered_ns >= model.began_ns + 5 * MS, "nothing is known: after 5 ms");
	EXPECT(model.restored_ns == 0, "until the call ends");
	waits_learn(50 * MS);
	for (int i = 0; i < LEARNED; i++) {
		model.lowerings = 0;
		wait_play(50 * MS);
		EXPECT(model.lowerings == 1, "wait %d: %u times", i, model.lowerings);
		EXPECT(model.lowered_ns < model.began_ns + WAIT_FREE_POLLS * poll_ns + 36 * US,
		       "wait %d: lowered after %" PRIu64, i, model.lowered_ns - model.began_ns);
		EXPECT(model.restored_ns != 0 && model.restored_ns + MS <= model.end_ns,
		       "wait %d: not restored a millisecond before the end", i);
	}
	rank_begin(0, false);
	process.pstate_after_ns = 5 * MS;
	waits_learn(5800 * US);
	model.lowerings = 0;
	for (int i = 0; i < LEARNED; i++)
		wait_play(5800 * US);
	EXPECT(model.lowerings == 0, "%u times, for waits that end less than a change later", model.lowerings);
	poll_ns = POLL_NS;
}

/* A silent runtime: a look at each of the first waits of a kind, but not for ever where all are different. */
static void test_waits_that_are_all_new_are_not_all_looked_at(void)
{
	rank_begin(1u << MPIWAIT_RUNG_NAP, false);
	process.silent = true;
	process.burst = FORESIGHT_VAIN;
	for (uint32_t i = 0; i < FORESIGHT_NEW_MOST + 2; i++) {
		caller = 1 + i;
		wait_play(MS);
		EXPECT((model.dozes[MPIWAIT_RUNG_NAP] > 0) == (i >= FORESIGHT_NEW_MOST), "wait %u: %u naps", i,
		       model.dozes[MPIWAIT_RUNG_NAP]);
	}
}

/* And what becomes longer is learned anew. For the first such wait a debt was made, which goes with the second one. */
static void test_waits_that_have_become_longer(uint64_t wait_ns, uint64_t longer_ns)
{
	unsigned slept = 0;

	silent_begin();
	poll_ns = longer_ns > 50 * MS ? 10 * US : POLL_NS;
	for (int i = 0; i < LEARNED; i++)
		wait_play(wait_ns);
	for (int i = 0; i < 2 * LEARNED; i++) {
		wait_play(longer_ns);
		slept += i >= LEARNED && model.dozes[MPIWAIT_RUNG_PAUSE] * poll_ns < longer_ns / 8;
		EXPECT(i != 1 || process.account.debt_ns == 0, "a debt of %" PRIu64, process.account.debt_ns);
	}
	EXPECT(slept > LEARNED * 2 / 3, "of %d waits of %" PRIu64 " %u were slept through", LEARNED, longer_ns, slept);
	poll_ns = POLL_NS;
}

/* One wait that is late for a reason of its own costs a look at the next, and no forecast of those after that. */
static void test_one_late_wait_ends_no_forecasts(void)
{
	unsigned slept = 0;

	silent_begin();
	waits_learn(500 * US);
	wait_play(900 * US);
	EXPECT(slot.lane[0].late_ns >= 300 * US, "charged: %" PRIu64, slot.lane[0].late_ns);
	wait_play(500 * US);
	EXPECT(model.dozes[MPIWAIT_RUNG_NAP] == 0, "the next one is looked at");
	for (int i = 0; i < LEARNED; i++) {
		wait_play(500 * US);
		slept += model.dozes[MPIWAIT_RUNG_NAP] > 0;
	}
	EXPECT(slept == LEARNED, "%u of %d", slept, LEARNED);
}

/* The kernel ends the second nap of one wait late: that is charged once, and the next wait is slept through. */
static void test_a_nap_that_the_kernel_ended_late(void)
{
	uint64_t before_ns;

	silent_begin();
	waits_learn(500 * US);
	before_ns = slot.lane[0].late_ns;
	model.late_nap = 2;
	model.late_ns = 2 * MS;
	wait_play(500 * US);
	EXPECT(model.dozes[MPIWAIT_RUNG_NAP] == 2 &&
	               slot.lane[0].late_ns - before_ns == model.asked_ns + NAP_EXIT + model.late_ns,
	       "charged: %" PRIu64 " after %u naps", slot.lane[0].late_ns - before_ns, model.dozes[MPIWAIT_RUNG_NAP]);
	model.late_nap = 0;
	wait_play(500 * US);
	EXPECT(model.dozes[MPIWAIT_RUNG_NAP] > 0, "the next one is looked at");
}

/* A long wait is looked at near its end alone, but all of it where the question is whether naps made it longer. */
static void test_a_long_wait_is_looked_at_near_its_end(void)
{
	uint64_t wait_ns = 100 * MS, polled_ns;

	silent_begin();
	poll_ns = 2 * US;
	for (int i = 0; i < 4; i++) {
		wait_play(wait_ns);
		polled_ns = model.after[MPIWAIT_RUNG_PAUSE] * poll_ns;
		EXPECT(model.dozes[MPIWAIT_RUNG_NAP] > 0, "wait %d: slept in at first", i);
		EXPECT(i < 2 || (polled_ns >= wait_ns / 9 && polled_ns < wait_ns / 4), "wait %d: polled for %" PRIu64,
		       i, polled_ns);
	}
	wait_play(wait_ns);
	EXPECT(model.dozes[MPIWAIT_RUNG_PAUSE] * poll_ns < wait_ns / 8, "known: %u polls",
	       model.dozes[MPIWAIT_RUNG_PAUSE]);
	wait_play(wait_ns + wait_ns / 8);
	wait_play(wait_ns + wait_ns / 8);
	EXPECT(model.dozes[MPIWAIT_RUNG_NAP] == 0, "was it the naps? %u more", model.dozes[MPIWAIT_RUNG_NAP]);
	poll_ns = POLL_NS;
}

static unsigned ends_kept(void)
{
	const struct predictor_entry *entries = predictors[0].table[0];
	unsigned kept = 0;

	for (unsigned i = 0; i < PREDICTOR_SETS * PREDICTOR_WAYS; i++)
		kept += entries[i].ends.count;
	return kept;
}

/* Where the nap before such a look was too long, the end was not seen. */
static void test_a_look_that_began_too_late(void)
{
	unsigned late = 0, seen = 0;

	for (uint64_t after_ns = 0; after_ns < 250 * US; after_ns += 10 * US) {
		unsigned kept;

		silent_begin();
		wait_play(8 * MS);
		wait_play(8 * MS);
		kept = ends_kept();
		EXPECT(kept == 2, "looked at: %u", kept);
		wait_play(7 * MS + after_ns);
		late += ends_kept() == kept;
		seen += ends_kept() > kept;
		EXPECT(ends_kept() == kept || model.after[MPIWAIT_RUNG_PAUSE] > 0,
		       "%" PRIu64 " ns after the look's begin, in a nap", after_ns);
	}
	EXPECT(late > 0 && seen > 0, "%u late, %u seen", late, seen);
}

/* In a large job the first waits of a kind, and one after a late end, are polled through, whatever the runtime. */
static void test_a_large_job_looks_itself(int32_t ranks)
{
	bool large = ranks > 16 && ranks <= 2048;

	rank_begin(1u << MPIWAIT_RUNG_NAP, false);
	slot.size = ranks;
	account_open(&process.account, model.now_ns, SLOWDOWN, 2);
	wait_play(5 * MS);
	EXPECT((model.dozes[MPIWAIT_RUNG_NAP] == 0) == large, "%d ranks: %u naps", ranks,
	       model.dozes[MPIWAIT_RUNG_NAP]);
	waits_learn(5 * MS);
	if (ranks > 100) /* their part of the account pays for few naps */
		return;
	EXPECT(model.dozes[MPIWAIT_RUNG_NAP] > 0, "%d ranks: known, and not slept through", ranks);
	wait_play(2 * MS);
	wait_play(5 * MS);
	EXPECT((model.dozes[MPIWAIT_RUNG_NAP] == 0) == large, "%d ranks, after a late end: %u naps", ranks,
	       model.dozes[MPIWAIT_RUNG_NAP]);
}

/* The job looks as long each time; an old one does so less often, at times at which a young one does too. */
static void test_when_the_job_looks(void)
{
	uint64_t young_ns = FORESIGHT_YOUNG_NS - 1, old_ns = FORESIGHT_YOUNG_NS;
	unsigned young = 0, old = 0;

	for (uint64_t real_ns = 0; real_ns < 4 * FORESIGHT_LOOK_OLD_NS; real_ns += FORESIGHT_LOOK_NS) {
		young += foresight_look_left(real_ns, young_ns) == FORESIGHT_LOOK_NS;
		old += foresight_look_left(real_ns, old_ns) == FORESIGHT_LOOK_NS;
		EXPECT(foresight_look_left(real_ns, old_ns) <= foresight_look_left(real_ns, young_ns),
		       "at %" PRIu64 " the old look alone", real_ns);
	}
	EXPECT(young == 16 && old == 4, "%u, %u looks", young, old);
	EXPECT(foresight_look_left(FORESIGHT_LOOK_NS - 1, old_ns) == 1, "until its end");
}

int main(void)
{
	test_one_late_wait_ends_no_forecasts();
	test_a_nap_that_the_kernel_ended_late();
	test_when_the_job_looks();
	test_a_large_job_looks_itself(16);
	test_a_large_job_looks_itself(17);
	test_a_large_job_looks_itself(2048);
	test_a_large_job_looks_itself(2049);
	test_waits_that_have_become_longer(60 * US, MS);
	test_waits_that_have_become_longer(MS, 5 * MS);
	test_waits_that_have_become_longer(2 * MS, 100 * MS);
	test_waits_that_are_all_new_are_not_all_looked_at();
	test_a_long_wait_is_looked_at_near_its_end();
	test_a_look_that_began_too_late();
	test_the_core_rests_after_the_landing(MPIWAIT_RUNG_UMWAIT);
	test_the_core_rests_after_the_landing(MPIWAIT_RUNG_MWAITX);
	test_no_rest_that_cannot_be_paid();
	test_a_shared_core_is_yielded_after_the_landing();
	test_a_core_that_was_taken_is_yielded(true, 3 * MS);
	test_a_core_that_was_taken_is_yielded(true, WAIT_SLICE_NS / 2);
	test_a_core_that_was_taken_is_yielded(false, 3 * MS);
	test_a_sleep_for_the_message_ends_at_the_landing();
	if (CHECK_HOLDING) /* it takes longer than all others together */
		test_the_clock_is_lowered_for_long_forecasts_alone();
	return CHECK_RESULT;
}
