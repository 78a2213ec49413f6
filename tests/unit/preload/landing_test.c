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
#include "preload/wait/presleep.h"
#include "preload/wait/wait.h"
#include "tests/lib/check.h"

#define US       UINT64_C(1000)
#define MS       UINT64_C(1000000)
#define POLL_NS  UINT64_C(400)
#define NAP_EXIT (5 * US)
#define WAKE_NS  (30 * US) /* by a message */
#define LEARNED  200       /* waits of a kind after which it is known, and those that are watched */
#define RANKS    64        /* margins are wide, and stay so: no nap is late by itself */
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
	uint64_t late_ns;           /* by which the next nap ends later than else */
	bool held;                  /* others had the core then */
	bool looks;                 /* the wait is in a look of the job, in part */
	bool refuses;               /* sleeps for a message do not begin */
} model;

static struct mpiwait_slot slot;
static struct mpiwait_header node;
static struct forecast forecast; /* of the one lane */
static uintptr_t frame[3], caller;
static uint64_t poll_ns = POLL_NS; /* other in the tests of long waits, and of slow and fast polls */
static uint64_t polls;             /* idle polls so far */

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
	model.now_ns += ask_ns + NAP_EXIT + model.late_ns;
	model.late_ns = 0;
}

bool rung_nap_was_held(struct rung_thread *thread, uint64_t late_ns)
{
	(void)thread;
	return model.held && late_ns > MS;
}

static void doze_event(uint64_t ask_ns, struct rung_thread *thread)
{
	uint64_t timeout_ns = model.now_ns + ask_ns;

	if (model.refuses) {
		thread->event = EVENT_BUSY;
		return;
	}
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

/* Nothing sleeps before a call here: all have idle calls. */
void presleep_end(struct wait *wait, uint64_t now_ns)
{
	(void)wait, (void)now_ns;
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
	memset(&wait_event_trust, 0, sizeof(wait_event_trust));
	memset(&model, 0, sizeof(model));
	memset(&forecast, 0, sizeof(forecast));
	slot.size = RANKS;
	slot.launch = 42;
	slot.slowdown_ppm = SLOWDOWN;
	caller = 1;
	model.now_ns = process.opened_ns = NS_PER_S;
	process.slot = &slot;
	process.node = &node;
	process.burst = 1;
	process.pstate_after_ns = UINT64_MAX;
	process.forecasts = &forecast;
	process.config = (struct config){.shared = shared, .event_ns = 10 * MS, .rma_ns = 10000};
	process.policy = (struct ladder_policy){
	        .rungs = 1u << MPIWAIT_RUNG_PAUSE | rungs, .spin_ns = 20000, .relative_ppm = 62500, .max_ns = 100000};
}

/* Nobody sleeps any more: the job has lost what it may. */
static void account_exhaust(void)
{
	wait_self.plan.account.spent_ns = 1e18;
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
	model.looks = false;
	memset(model.dozes, 0, sizeof(model.dozes));
	memset(model.after, 0, sizeof(model.after));
	frame[1] = caller;
	mode = wait_enter(ROW_Recv, CALL_WAIT, false, (uintptr_t)frame);
	for (;;) {
		model.now_ns += poll_ns;
		gap_play();
		if (model.now_ns >= model.end_ns)
			break;
		polls++;
		if (wait_count_poll(&wait_self))
			wait_idle(&wait_self, MPIWAIT_HOOK_OPAL);
		model.looks |= looks_at(&wait_self.plan.looks, model.now_ns);
	}
	wait_self.progressed = 1;
	wait_leave(mode);
	wait_self.progressed = 0;
	return model.now_ns - model.end_ns;
}

/* Idle polls of the open call. */
static void polls_play(unsigned many)
{
	for (; many > 0; many--) {
		model.now_ns += poll_ns;
		if (wait_count_poll(&wait_self))
			wait_idle(&wait_self, MPIWAIT_HOOK_OPAL);
	}
}

static void waits_learn(uint64_t wait_ns)
{
	for (int i = 0; i < LEARNED; i++)
		wait_play(wait_ns);
}

/* An instruction that sleeps the core, between the landing and the message; but not in a look. */
static void test_the_core_rests_after_the_landing(enum mpiwait_rung rung)
{
	uint64_t forecasts;
	int looks = 0;

	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << rung, false);
	waits_learn(MS);
	forecasts = slot.lane[0].forecasts;
	for (int i = 0; i < LEARNED; i++) {
		uint64_t late_ns = wait_play(MS + (uint64_t)i % 4 * US);

		looks += model.looks;
		if (model.looks)
			continue;
		EXPECT(model.dozes[MPIWAIT_RUNG_NAP] > 0, "%s, wait %d: no nap", config_rung_names[rung], i);
		EXPECT(model.after[rung] > 0, "%s, wait %d: no sleep", config_rung_names[rung], i);
		EXPECT(model.after[MPIWAIT_RUNG_PAUSE] == 0, "%s, wait %d: %u polls without a sleep",
		       config_rung_names[rung], i, model.after[MPIWAIT_RUNG_PAUSE]);
		EXPECT(late_ns <= 1400 + POLL_NS, "%s, wait %d: %" PRIu64 " late", config_rung_names[rung], i, late_ns);
	}
	EXPECT(slot.lane[0].forecasts >= forecasts + LEARNED - (unsigned)looks, "%" PRIu64 " forecasts",
	       slot.lane[0].forecasts - forecasts);
	EXPECT(looks < LEARNED / 4, "%d waits in looks", looks);
}

/* A rank that may do everything polls alone while the job looks, also where cores are shared: then by yields. */
static void test_looks_poll(bool shared)
{
	enum mpiwait_rung poll = shared ? MPIWAIT_RUNG_YIELD : MPIWAIT_RUNG_PAUSE;
	uint32_t looks = 0;

	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_UMWAIT | 1u << MPIWAIT_RUNG_EVENT, shared);
	wait_event_trust.wakes = EVENT_PROVEN;
	for (int i = 0; i < 4 * LEARNED; i++) {
		uint64_t from_ns = wait_self.plan.looks.from_ns, until_ns = wait_self.plan.looks.until_ns;
		bool first = model.now_ns + 2 * MS < process.opened_ns + LOOKS_FIRST_NS;

		caller = i % 2 ? 1 : 2 + (uintptr_t)i; /* known, and not */
		wait_play(MS);
		if (!first && !(model.began_ns >= from_ns && model.end_ns < until_ns))
			continue;
		looks++;
		for (int rung = 0; rung < (int)MPIWAIT_RUNG_COUNT; rung++)
			EXPECT(rung == (int)poll || model.dozes[rung] <= (rung == (int)MPIWAIT_RUNG_YIELD),
			       "wait %d, in a look: %s, %u times", i, config_rung_names[rung], model.dozes[rung]);
		EXPECT(model.dozes[poll] > 500, "wait %d, in a look: %u polls", i, model.dozes[poll]);
	}
	EXPECT(looks > 8, "%u looks", looks);
}

/* A wait that is known to be long is slept in during a look too: for fifteen sixteenths of the shortest. Others are
 * not. */
static void test_a_long_wait_is_slept_in_in_a_look(uint64_t wait_ns)
{
	bool is_long = wait_ns >= FORECAST_LONG_NS + 100 * US; /* the first 64 polls are not seen */
	unsigned looks = 0;

	rank_begin(1u << MPIWAIT_RUNG_NAP, false);
	waits_learn(wait_ns);
	for (int i = 0; i < 4 * LEARNED; i++) {
		const struct looks *window = &wait_self.plan.looks;
		uint64_t polled_ns;

		wait_play(wait_ns);
		if (model.began_ns < window->from_ns || model.end_ns >= window->until_ns)
			continue;
		looks++;
		polled_ns = model.after[MPIWAIT_RUNG_PAUSE] * poll_ns;
		EXPECT((model.dozes[MPIWAIT_RUNG_NAP] > 0) == is_long, "a wait of %" PRIu64 ": %u naps", wait_ns,
		       model.dozes[MPIWAIT_RUNG_NAP]);
		EXPECT(!is_long || (polled_ns + 5 * US >= wait_ns / 16 && polled_ns < wait_ns / 8),
		       "a wait of %" PRIu64 " is polled for %" PRIu64, wait_ns, polled_ns);
	}
	EXPECT(looks > 4, "%u waits in looks", looks);
}

/* Nothing that takes a time, once the job has lost what it may. */
static void test_what_is_not_slept_is_polled(bool shared)
{
	enum mpiwait_rung poll = shared ? MPIWAIT_RUNG_YIELD : MPIWAIT_RUNG_PAUSE;

	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_UMWAIT | 1u << MPIWAIT_RUNG_EVENT, shared);
	wait_event_trust.wakes = EVENT_PROVEN;
	waits_learn(MS);
	account_exhaust();
	for (int i = 0; i < 2; i++) {
		caller = 1 + (uintptr_t)i; /* known, and not */
		wait_play(MS);
		EXPECT(model.dozes[MPIWAIT_RUNG_NAP] + model.dozes[MPIWAIT_RUNG_EVENT] == 0, "%u naps, %u sleeps",
		       model.dozes[MPIWAIT_RUNG_NAP], model.dozes[MPIWAIT_RUNG_EVENT]);
		EXPECT(model.dozes[MPIWAIT_RUNG_UMWAIT] == 0, "%u sleeps", model.dozes[MPIWAIT_RUNG_UMWAIT]);
		EXPECT(model.dozes[poll] > 500, "%u polls", model.dozes[poll]);
	}
}

/* Others want the core: after the landing too. */
static void test_a_shared_core_is_yielded_after_the_landing(void)
{
	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_UMWAIT, true);
	waits_learn(MS);
	for (int i = 0; i < LEARNED; i++) {
		wait_play(MS);
		EXPECT(model.looks || (model.dozes[MPIWAIT_RUNG_NAP] > 0 && model.after[MPIWAIT_RUNG_YIELD] > 0),
		       "wait %d: %u, %u", i, model.dozes[MPIWAIT_RUNG_NAP], model.after[MPIWAIT_RUNG_YIELD]);
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
	wait_play(MS);
	account_exhaust();
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

/* The account pays for a nap that ended late by itself, not for a core that others had: who polls loses it as well. */
static void test_a_hold_up_is_not_charged(bool held)
{
	uint32_t naps = 0;

	rank_begin(1u << MPIWAIT_RUNG_NAP, false);
	waits_learn(MS);
	model.late_ns = 50 * MS;
	model.held = held;
	while (model.late_ns > 0)
		wait_play(MS);
	for (int i = 0; i < 50; i++) {
		wait_play(MS);
		naps += model.dozes[MPIWAIT_RUNG_NAP];
	}
	EXPECT(held ? naps > 25 : naps == 0, "%u naps", naps);
}

/* One wait in eight tries a sleep for the message, until that is proven to wake. */
static void test_messages_prove_that_they_wake(void)
{
	uint32_t tried = 0;

	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_EVENT, false);
	for (int i = 0; i < 40 * LEARNED && wait_event_trust.wakes < EVENT_PROVEN; i++) {
		caller = 2 + (uintptr_t)i;
		wait_play((1 + (uint64_t)i * 7 % 11) * 300 * US);
		EXPECT(model.event_asked_ns <= process.policy.max_ns, "asked for %" PRIu64, model.event_asked_ns);
		tried += model.dozes[MPIWAIT_RUNG_EVENT] > 0;
	}
	EXPECT(event_is_trusted(&wait_event_trust), "%u wake-ups in %u waits", wait_event_trust.wakes, tried);
	model.now_ns += NS_PER_S;
	caller = 1;
	wait_play(5 * MS); /* finds the next look */
	wait_play(5 * MS);
	EXPECT(model.looks || model.event_asked_ns > process.policy.max_ns, "asked for %" PRIu64, model.event_asked_ns);
}

/* A message wakes: the rank sleeps until the landing at once, and is awake when the message comes. */
static void test_a_sleep_for_the_message_ends_at_the_landing(void)
{
	uint64_t late_ns, charged_ns;
	unsigned by_message = 0;

	rank_begin(1u << MPIWAIT_RUNG_NAP | 1u << MPIWAIT_RUNG_EVENT, false);
	wait_event_trust.wakes = EVENT_PROVEN;
	waits_learn(5 * MS);
	for (int i = 0; i < LEARNED; i++) {
		late_ns = wait_play(5 * MS);
		EXPECT(model.dozes[MPIWAIT_RUNG_NAP] == 0, "wait %d: %u naps", i, model.dozes[MPIWAIT_RUNG_NAP]);
		EXPECT(late_ns <= POLL_NS, "wait %d: %" PRIu64 " late", i, late_ns);
		if (model.looks)
			continue;
		by_message += model.dozes[MPIWAIT_RUNG_EVENT] > 0 && model.event_asked_ns > 4 * MS;
		EXPECT(model.event_asked_ns < 5 * MS, "wait %d: %" PRIu64, i, model.event_asked_ns);
	}
	EXPECT(by_message > LEARNED / 2, "%u sleeps for the message", by_message);
	do {
		charged_ns = slot.lane[0].late_ns;
		late_ns = wait_play(2 * MS);
	} while (model.looks);
	EXPECT(late_ns <= WAKE_NS + POLL_NS, "what comes early costs the wake-up: %" PRIu64, late_ns);
	EXPECT(slot.lane[0].late_ns - charged_ns <= 2 * WAKE_NS, "%" PRIu64 " charged",
	       slot.lane[0].late_ns - charged_ns);
	do
		wait_play(5 * MS);
	while (model.looks);
	EXPECT(model.event_asked_ns > MS && model.event_asked_ns < 2 * MS + WAKE_NS,
	       "it is learned as an end at 2 ms, not at the beginning of the sleep: %" PRIu64, model.event_asked_ns);
}

/* A sleep for the message that the runtime refuses is none: not in the counts, nor for the forecast. */
static void test_a_refused_sleep_is_none(void)
{
	rank_begin(1u << MPIWAIT_RUNG_EVENT, false);
	wait_event_trust.wakes = EVENT_PROVEN;
	model.refuses = true;
	waits_learn(5 * MS);
	EXPECT(slot.lane[0].naps[MPIWAIT_RUNG_EVENT] > LEARNED, "%" PRIu64 " refusals",
	       (uint64_t)slot.lane[0].naps[MPIWAIT_RUNG_EVENT]);
	EXPECT(slot.lane[0].forecasts == 0 && slot.lane[0].foreseen == 0, "%" PRIu64 " forecasts, %" PRIu64 " foreseen",
	       slot.lane[0].forecasts, slot.lane[0].foreseen);
	model.refuses = false;
	waits_learn(5 * MS);
	EXPECT(slot.lane[0].foreseen > LEARNED / 2, "%" PRIu64 " foreseen", slot.lane[0].foreseen);
}

/* The clock is lowered only for what is forecast to last longer than two changes, and is back before the end. */
static void test_the_clock_is_lowered_for_long_forecasts_alone(void)
{
	unsigned lowered = 0;

	poll_ns = 4 * US;
	rank_begin(0, false);
	process.pstate_after_ns = 5 * MS;
	wait_play(50 * MS);
	EXPECT(model.lowered_ns >= process.opened_ns + LOOKS_FIRST_NS, "not in the first look");
	EXPECT(model.lowered_ns >= model.began_ns + 5 * MS, "nothing is known: after 5 ms");
	EXPECT(model.restored_ns == 0 || looks_at(&wait_self.plan.looks, model.restored_ns),
	       "until the call ends, or a look begins");
	for (int i = 0; i < 8; i++)
		wait_play(50 * MS);
	for (int i = 0; i < LEARNED / 4; i++) {
		model.lowerings = 0;
		wait_play(50 * MS);
		EXPECT(model.lowerings <= 2, "wait %d: %u times", i, model.lowerings);
		EXPECT(model.lowerings == 0 || (model.restored_ns != 0 && model.restored_ns + MS <= model.end_ns),
		       "wait %d: not restored a millisecond before the end", i);
		lowered +=
		        model.lowerings == 1 && model.lowered_ns < model.began_ns + WAIT_FREE_POLLS * poll_ns + 36 * US;
	}
	EXPECT(lowered > LEARNED / 8, "%u of %d waits at once", lowered, LEARNED / 4);
	rank_begin(0, false);
	process.pstate_after_ns = 5 * MS;
	for (int i = 0; i < LEARNED / 4; i++)
		wait_play(5800 * US);
	model.lowerings = 0;
	for (int i = 0; i < LEARNED / 4; i++)
		wait_play(5800 * US);
	EXPECT(model.lowerings == 0, "%u times, for waits that end less than a change later", model.lowerings);
	poll_ns = POLL_NS;
}

/* The gap that counts as usual is up to a fifth shorter than each of these gaps (ladder_gap). */
static void test_free_polls_are_fewer_if_they_are_slow(uint64_t a_poll_ns, uint64_t least, uint64_t most)
{
	uint64_t before, free;

	poll_ns = a_poll_ns;
	waits_learn(MS / 2);
	free = (wait_self.first_ns - model.began_ns) / poll_ns;
	EXPECT(free >= least && free <= most, "%" PRIu64 " ns a poll: %" PRIu64 " are free", poll_ns, free);
	before = slot.lane[0].idle_polls;
	polls = 0;
	wait_play(MS / 2);
	EXPECT(slot.lane[0].idle_polls - before == polls, "%" PRIu64 " idle polls counted, of %" PRIu64,
	       slot.lane[0].idle_polls - before, polls);
	poll_ns = POLL_NS;
}

static void test_few_polls_are_free(void)
{
	rank_begin(0, false);
	poll_ns = 10;
	wait_play((WAIT_FREE_POLLS + 6) * poll_ns);
	wait_play(MS / 2);
	EXPECT(wait_self.first_ns == model.began_ns + WAIT_FREE_POLLS * poll_ns,
	       "a short wait does not show what polls take");
	test_free_polls_are_fewer_if_they_are_slow(10, 64, 64);
	test_free_polls_are_fewer_if_they_are_slow(90, 64, 64);
	test_free_polls_are_fewer_if_they_are_slow(300, 20, 25);
	test_free_polls_are_fewer_if_they_are_slow(90, 64, 64);
	test_free_polls_are_fewer_if_they_are_slow(2000, 8, 8);
	process.threaded = true;
	test_free_polls_are_fewer_if_they_are_slow(10, 8, 8);
	process.threaded = false;
	test_free_polls_are_fewer_if_they_are_slow(10, 64, 64);
}

/* At 0.1 us a poll, 2^32 polls take seven minutes: a rank that waits for hours polls more often than that. */
static void test_no_number_of_polls_begins_a_wait_anew(void)
{
	uint64_t first_ns, before;
	uint32_t mode;

	rank_begin(0, false);
	frame[1] = caller;
	mode = wait_enter(ROW_Recv, CALL_WAIT, false, (uintptr_t)frame);
	polls_play(200);
	first_ns = wait_self.first_ns;
	wait_self.polls = UINT32_MAX - 100;
	before = slot.lane[0].idle_polls;
	polls_play(200);
	CHECK(wait_self.first_ns == first_ns && wait_self.waits == 1);
	wait_leave(mode);
	CHECK(slot.lane[0].idle_polls - before == UINT64_C(0x100000000) + 99);
}

/* A process that goes on from a checkpoint on a host that was booted later learns anew, under the same bounds. */
static void test_a_clock_that_goes_back_ends_no_nap_and_no_bound(void)
{
	rank_begin(1u << MPIWAIT_RUNG_NAP, false);
	model.now_ns = process.opened_ns = 5000 * NS_PER_S;
	waits_learn(MS);
	model.now_ns = 10 * NS_PER_S;
	wait_play(MS);
	CHECK(account_allowed(&wait_self.plan.account, model.now_ns) <= 2 * ALLOWANCE_START_NS);
	CHECK(looks_at(&wait_self.plan.looks, model.now_ns) && forecast.ranks == RANKS);
	waits_learn(MS);
	slot.lane[0].forecasts = 0;
	for (int i = 0; i < LEARNED; i++)
		CHECK(wait_play(MS) <= NAP_EXIT + POLL_NS);
	EXPECT(slot.lane[0].forecasts > LEARNED / 2, "%" PRIu64, slot.lane[0].forecasts);
}

int main(void)
{
	test_few_polls_are_free();
	test_no_number_of_polls_begins_a_wait_anew();
	test_a_clock_that_goes_back_ends_no_nap_and_no_bound();
	test_the_core_rests_after_the_landing(MPIWAIT_RUNG_UMWAIT);
	test_the_core_rests_after_the_landing(MPIWAIT_RUNG_MWAITX);
	test_looks_poll(false);
	test_looks_poll(true);
	test_a_long_wait_is_slept_in_in_a_look(5 * MS);
	test_a_long_wait_is_slept_in_in_a_look(FORECAST_LONG_NS + 100 * US);
	test_a_long_wait_is_slept_in_in_a_look(FORECAST_LONG_NS - 100 * US);
	test_what_is_not_slept_is_polled(false);
	test_what_is_not_slept_is_polled(true);
	test_a_shared_core_is_yielded_after_the_landing();
	test_a_core_that_was_taken_is_yielded(true, 3 * MS);
	test_a_core_that_was_taken_is_yielded(true, WAIT_SLICE_NS / 2);
	test_a_core_that_was_taken_is_yielded(false, 3 * MS);
	test_a_hold_up_is_not_charged(true);
	test_a_hold_up_is_not_charged(false);
	test_messages_prove_that_they_wake();
	test_a_sleep_for_the_message_ends_at_the_landing();
	test_a_refused_sleep_is_none();
	if (CHECK_HOLDING) /* it takes longer than all others together */
		test_the_clock_is_lowered_for_long_forecasts_alone();
	return CHECK_RESULT;
}
