/*
 * Clock and accounting of a wait that lasts, and the nap. Its invariant stands in wait.h.
 */
#include "preload/wait/wait.h"

#include <sys/syscall.h>
#include <unistd.h>

#define HOUR_NS         UINT64_C(3600000000000)
#define STOPPED_NS      UINT64_C(1000000000)
#define SAMPLE_AFTER_NS UINT64_C(1000000)
#define OTHERS_SHARE    256  /* of a wait: less CPU time of other threads than that is the reading's */
#define YIELD_OWN_NS    1500 /* a yield that takes longer has let somebody else run */
#define SHARED_CREDIT   64   /* quick yields in a row after which the core counts as ours again */
#define PACE_NS         1000 /* between idle polls, and after a doze, to begin with */
#define PACE_DOZED_NS   2000
#define EVENT_REST_NS   UINT64_C(1000000)
#define TRY_EVERY       8
#define LOCK_SHARE      64   /* of a wait for a lock: its cap, once that is more than the policy's */
#define LANDED_REST_NS  1000 /* between two polls after the landing: what comes meanwhile is found that much later */
#define CLOCK_BACK_NS   UINT64_C(1000000) /* until a core that was lowered runs at full speed again */
#define PROBE_EVERY     16 /* waits: a yield costs a quarter of a microsecond, a shared core everything */

__thread struct wait wait_self __attribute__((tls_model("initial-exec")));

/* One-sided waits and files may move by other ways than messages: no message need end them. */
static const bool by_messages[CALL_ROWS] = {
#define CALL(name, arguments, kind, large, group, ...) GROUP_##group == GROUP_P2P || GROUP_##group == GROUP_COLLECTIVE,
#include "preload/mpi/mpi_calls.def"
#undef CALL
};

/* Of the process: only a single thread sleeps so. */
static struct event_trust event_trust;

/* For the threads beyond MPIWAIT_LANES: written by all of them, read by nobody. */
static struct mpiwait_lane lane_overflow;

static struct mpiwait_lane *lane_claim(void)
{
	struct mpiwait_slot *slot = process.slot;
	uint32_t index = __atomic_fetch_add(&slot->lanes, 1, __ATOMIC_ACQ_REL);

	if (index > 0) {
		__atomic_store_n(&process.threaded, true, __ATOMIC_RELAXED);
		process_event_end();
	}
	if (index >= MPIWAIT_LANES) {
		process_flag(MPIWAIT_FLAG_LANES_FULL);
		return &lane_overflow;
	}
	slot->lane[index].tid = (uint32_t)syscall(SYS_gettid);
	return &slot->lane[index];
}

/* A thread has the predictor that belongs to its lane. Those that have none nap by the ladder alone. */
static void foresight_prepare(struct foresight *foresight, struct mpiwait_lane *lane)
{
	foresight->lane = lane;
	if (!process.predictors || lane == &lane_overflow)
		return;
	foresight->predictor = &process.predictors[lane - process.slot->lane];
	foresight->predictor->ranks = process.slot->size > 0 ? (uint32_t)process.slot->size : 0;
}

static void thread_prepare(struct wait *wait)
{
	for (uint32_t i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		wait->ladder.rung[i] = (struct ladder_latency){
		        .timed = rung_table[i].timed,
		        .holds_core = rung_table[i].holds_core,
		        .woken = rung_table[i].woken,
		        .exit_ns = rung_table[i].exit_ns,
		        .most_ns = rung_table[i].most_ns ? rung_table[i].most_ns() : 0,
		};
	wait->pace = (struct ladder_pace){.polled = {.ns = PACE_NS}, .dozed = {.ns = PACE_DOZED_NS}};
	wait->lane = lane_claim();
	wait->rung.lane = wait->lane;
	foresight_prepare(&wait->foresight, wait->lane);
}

bool wait_prepare(struct wait *wait, uintptr_t here)
{
	if (here < wait->outer) {
		wait->progressed = 1;
		return false;
	}
	if (!wait->lane)
		thread_prepare(wait);
	if (wait->outer != 0 && wait->polls >= WAIT_FREE_POLLS)
		wait_close(wait);
	wait->entered_ns = 0;
	wait->entered_cpu_ns = 0;
	wait->polls = 0;
	wait->outer = 0;
	return true;
}

void wait_count(enum call_row row)
{
	struct wait *wait = &wait_self;

	if (!wait->lane)
		wait_prepare(wait, 0);
	wait->lane->calls[row].calls++;
}

/* What the latest sleep for an event was worth, now that the polls after it have shown what there was. */
static void event_judge(struct wait *wait, bool found)
{
	enum event_end end = wait->rung.event;

	if (end == EVENT_NONE)
		return;
	wait->rung.event = EVENT_NONE;
	wait->rung.event_missed = end == EVENT_TIMEOUT && found;
	wait->lane->event_wakes += end == EVENT_WOKEN && found;
	wait->lane->event_lost += end == EVENT_LOST;
	if (event_learn(&event_trust, end, found))
		process_event_end();
	else if (event_is_refused(&event_trust))
		wait->ladder.rung[MPIWAIT_RUNG_EVENT].back_ns = wait->last_ns + EVENT_REST_NS;
}

static bool has_account(void)
{
	return account_is_open(&process.account);
}

static void wait_open(struct wait *wait, uint64_t now_ns)
{
	struct mpiwait_lane *lane = wait->lane;

	wait->first_ns = wait->origin_ns = wait->last_ns = now_ns;
	wait->sample_ns = 0;
	wait->lower_ns = process.pstate_after_ns;
	wait->rung.event = EVENT_NONE;
	wait->pace.held_ns = 0;
	wait->quiet = 0;
	wait->dozed = 0;
	wait->waits++;
	if (has_account())
		foresight_open(&wait->foresight, predictor_site(wait_caller(wait), wait->row, wait->handle, wait->peer),
		               wait->kind == CALL_WAIT && !wait->rma_lock, now_ns);
	lane->open_since_ns = lane->open_last_ns = now_ns;
	__atomic_store_n(&lane->open_call, wait->row + 1, __ATOMIC_RELEASE);
}

/*
 * Whether the clock has jumped since the last reading. A clock that went backwards makes all readings worthless; over
 * a second more than was asked for, it jumped, or the process was stopped (scontrol suspend) or at work: nobody waited
 * meanwhile.
 */
static bool clock_jumped(struct wait *wait, uint64_t now_ns, uint64_t asked_ns)
{
	uint64_t gap_ns = now_ns - wait->last_ns;

	if (now_ns < wait->last_ns) {
		wait_open(wait, now_ns);
		return true;
	}
	if (gap_ns <= STOPPED_NS || gap_ns - STOPPED_NS <= asked_ns)
		return false;
	foresight_drop(&wait->foresight);
	wait->first_ns += gap_ns;
	wait->origin_ns += gap_ns;
	wait->lane->open_since_ns += gap_ns;
	wait->last_ns = now_ns;
	wait->sample_ns = 0;
	return true;
}

/* Signs of progress: w begins anew at each, and a mere hint of one costs the polls of another burst. */
static void wait_look(struct wait *wait, uint64_t now_ns)
{
	enum ladder_sign sign = ladder_gap(&wait->pace, wait->dozed, now_ns, now_ns - wait->last_ns);

	if (wait->progressed || now_ns - wait->origin_ns > HOUR_NS)
		sign = LADDER_PROGRESS;
	if (has_account() && wait->progressed)
		foresight_progress(&wait->foresight, &process.account, wait->last_ns, now_ns);
	if (sign == LADDER_PROGRESS)
		wait->origin_ns = now_ns;
	if (sign != LADDER_QUIET)
		wait->quiet = 0;
}

/* Of threads that wait at the same time, one counts the others: the first that called MPI. */
static bool counts_others(const struct wait *wait)
{
	return wait->lane == process.slot->lane;
}

static void sample_begin(struct wait *wait, uint64_t now_ns)
{
	wait->sample_ns = now_ns;
	wait->sample_cpu_ns = clock_thread_cpu_ns();
	if (counts_others(wait))
		wait->sample_others_ns = clock_process_cpu_ns() - wait->sample_cpu_ns;
}

static void wait_clock(struct wait *wait, uint64_t now_ns)
{
	if (wait->polls == WAIT_FREE_POLLS)
		wait_open(wait, now_ns);
	else if (!clock_jumped(wait, now_ns, 0))
		wait_look(wait, now_ns);
	event_judge(wait, wait->progressed);
	wait->progressed = 0;
	wait->dozed = 0;
	wait->last_ns = now_ns;
	wait->lane->open_last_ns = now_ns;
	if (wait->sample_ns == 0 && now_ns - wait->first_ns >= SAMPLE_AFTER_NS && !wait->loop.open)
		sample_begin(wait, now_ns);
}

/* The CPU time is read later than the last poll: of the little beyond it, nothing is counted. */
static void sample_add(const struct wait *wait)
{
	uint64_t sampled_ns = wait->last_ns - wait->sample_ns;
	uint64_t now_cpu_ns = clock_thread_cpu_ns(), cpu_ns = now_cpu_ns - wait->sample_cpu_ns;
	uint64_t others_ns = counts_others(wait) ? clock_process_cpu_ns() - now_cpu_ns - wait->sample_others_ns : 0;

	wait->lane->sampled_ns += sampled_ns;
	wait->lane->sampled_cpu_ns += cpu_ns < sampled_ns ? cpu_ns : sampled_ns;
	/* The two clocks are read one after the other: what is that little, to either side, is no thread's. */
	if ((int64_t)others_ns > (int64_t)(sampled_ns / OTHERS_SHARE))
		wait->lane->threads_cpu_ns += others_ns;
}

void wait_close(struct wait *wait)
{
	struct mpiwait_lane *lane = wait->lane;
	struct mpiwait_call_stats *call = &lane->calls[wait->row];
	uint64_t wait_ns = wait->last_ns - wait->first_ns;

	rung_leave(&wait->rung);
	if (process_mode() == PROCESS_INERT)
		return;
	event_judge(wait, true);
	if (has_account())
		foresight_close(&wait->foresight, &process.account, wait->last_ns);
	call->waits++;
	call->wait_ns += wait_ns;
	if (wait_ns > call->longest_ns)
		call->longest_ns = wait_ns;
	lane->idle_polls += wait->polls;
	if (wait->sample_ns != 0)
		sample_add(wait);
	__atomic_store_n(&lane->open_call, 0, __ATOMIC_RELEASE);
}

static void shared_learn(struct wait *wait, uint64_t actual_ns)
{
	if (actual_ns > YIELD_OWN_NS) {
		if (wait->shared_credit == 0)
			process_flag(MPIWAIT_FLAG_SHARED_CORES);
		wait->shared_credit = SHARED_CREDIT;
	} else if (wait->shared_credit > 0) {
		wait->shared_credit--;
	}
}

static bool hook_is_locked(uint32_t hook)
{
	if (!__atomic_load_n(&process.threaded, __ATOMIC_RELAXED) || !(process.locked_hooks & hook))
		return false;
	if (!(process.slot->flags & MPIWAIT_FLAG_LOCKED))
		process_flag(MPIWAIT_FLAG_LOCKED);
	return true;
}

/*
 * How long a sleep may last that a message ends. Until that is proven, one wait in TRY_EVERY tries it, and is late by
 * the largest budget if it was wrong to.
 */
static uint64_t woken_most_ns(const struct wait *wait)
{
	if (!by_messages[wait->row] || wait->loop.open)
		return 0;
	if (event_is_trusted(&event_trust))
		return process.config.event_ns;
	return wait->waits % TRY_EVERY == 0 ? process.policy.max_ns : 0;
}

/* A lock that is held for long is not asked for by a rank that is in a hurry. */
static uint64_t lock_cap_ns(uint64_t waited_ns)
{
	uint64_t share_ns = waited_ns / LOCK_SHARE;

	return share_ns > process.config.rma_ns ? share_ns : process.config.rma_ns;
}

/* What a forecast says of the moment. */
enum forecast { FORECAST_NONE, FORECAST_NAP, FORECAST_BY_MESSAGE, FORECAST_REST };

/* The rung that sleeps until a forecast landing: the deepest that takes a time. */
static enum mpiwait_rung rung_timed(bool shared)
{
	for (unsigned i = MPIWAIT_RUNG_NAP; i > MPIWAIT_RUNG_YIELD; i--)
		if (process.policy.rungs & 1u << i && !(shared && rung_table[i].holds_core))
			return (enum mpiwait_rung)i;
	return MPIWAIT_RUNG_PAUSE;
}

/* Whether a sleep is proven to end with the message, and may begin. */
static bool event_serves(const struct wait *wait, const struct ladder_moment *moment)
{
	return moment->woken_ns > 0 && event_is_trusted(&event_trust) &&
	       process.policy.rungs & 1u << MPIWAIT_RUNG_EVENT &&
	       wait->ladder.rung[MPIWAIT_RUNG_EVENT].back_ns <= moment->now_ns;
}

/* Until the landing: by the message, and what comes early costs no more than the wake-up, or by the clock alone. */
static enum forecast nap_choose(const struct wait *wait, const struct ladder_moment *moment, struct predictor_nap nap,
                                struct ladder_action *ret_action)
{
	uint64_t woken_ns = nap.left_ns < moment->woken_ns ? nap.left_ns : moment->woken_ns;
	enum mpiwait_rung rung = rung_timed(moment->shared);

	if (event_serves(wait, moment)) {
		*ret_action = (struct ladder_action){MPIWAIT_RUNG_EVENT, woken_ns, UINT64_MAX};
		return FORECAST_BY_MESSAGE;
	}
	*ret_action = (struct ladder_action){rung, nap.ask_ns, nap.ask_ns + nap.exit_ns};
	return rung == MPIWAIT_RUNG_PAUSE ? FORECAST_NONE : FORECAST_NAP;
}

/*
 * From the landing to the message: the core rests between two polls where it has an instruction for that, and is
 * yielded where others want it.
 */
static enum forecast rest_choose(const struct wait *wait, const struct ladder_moment *moment,
                                 struct ladder_action *ret_action)
{
	*ret_action = (struct ladder_action){moment->shared ? MPIWAIT_RUNG_YIELD : MPIWAIT_RUNG_PAUSE, 0, 0};
	for (unsigned i = MPIWAIT_RUNG_NAP - 1; i > MPIWAIT_RUNG_YIELD && !moment->shared; i--) {
		const struct ladder_latency *latency = &wait->ladder.rung[i];

		if (!(process.policy.rungs & 1u << i) || latency->back_ns > moment->now_ns)
			continue;
		*ret_action = (struct ladder_action){i, LANDED_REST_NS, LANDED_REST_NS + latency->exit_ns};
		break;
	}
	return FORECAST_REST;
}

/* What is forecast: what to do until the landing or after it, or when the wait is to be taken to have begun. */
static enum forecast forecast(struct wait *wait, struct ladder_moment *moment, struct ladder_action *ret_action)
{
	uint64_t most_ns = wait->ladder.rung[rung_timed(moment->shared)].most_ns;
	struct predictor_nap nap = {.ask_ns = 0};

	if (moment->locked || moment->waited_ns == 0)
		return FORECAST_NONE;
	switch (foresight_ask(&wait->foresight, &process.account, wait->last_ns, most_ns, &nap)) {
	case PREDICTOR_NAP:
		return nap_choose(wait, moment, nap, ret_action);
	case PREDICTOR_LANDED:
		moment->waited_ns = wait->last_ns - foresight_origin(&wait->foresight, wait->origin_ns);
		return event_serves(wait, moment) ? FORECAST_NONE : rest_choose(wait, moment, ret_action);
	case PREDICTOR_OUTLASTED:
		moment->waited_ns = wait->last_ns - foresight_origin(&wait->foresight, wait->origin_ns);
		break;
	case PREDICTOR_UNKNOWN:
		break;
	}
	return FORECAST_NONE;
}

/* What a message is proven to end costs its exit latency. */
static bool is_woken(const struct wait *wait, struct ladder_action action)
{
	return wait->ladder.rung[action.rung].woken && event_is_trusted(&event_trust);
}

static bool is_shared(const struct wait *wait)
{
	return process.config.shared || wait->shared_credit > 0;
}

static bool is_paid(struct wait *wait, struct ladder_action action, enum forecast forecast)
{
	uint64_t exit_ns = wait->ladder.rung[action.rung].exit_ns;
	uint64_t cost_ns = is_woken(wait, action) ? exit_ns : action.ask_ns + exit_ns;

	if (action.ask_ns == 0)
		return true;
	if (forecast == FORECAST_REST)
		return foresight_rest(&wait->foresight, &process.account, wait->last_ns, cost_ns);
	if (forecast == FORECAST_NAP)
		cost_ns = action.budget_ns;
	return foresight_begin(&wait->foresight, &process.account, forecast != FORECAST_NONE, wait->last_ns, cost_ns);
}

/* The action if the account can pay for it, or else none that takes a time. */
static struct ladder_action action_pay(struct wait *wait, struct ladder_action action, enum forecast forecast)
{
	if (is_paid(wait, action, forecast))
		return action;
	return (struct ladder_action){is_shared(wait) ? MPIWAIT_RUNG_YIELD : MPIWAIT_RUNG_PAUSE, 0, 0};
}

static struct ladder_action action_choose(struct wait *wait, uint32_t hook)
{
	struct ladder_moment moment = {
	        .now_ns = wait->last_ns,
	        .waited_ns = wait->last_ns < wait->pace.held_ns ? 0 : wait->last_ns - wait->origin_ns,
	        .cap_ns = wait->rma_lock ? lock_cap_ns(wait->last_ns - wait->origin_ns) : UINT64_MAX,
	        .woken_ns = woken_most_ns(wait),
	        .shared = is_shared(wait),
	        .locked = hook_is_locked(hook),
	};
	struct ladder_action action;
	enum forecast foreseen;

	if (wait->polls == WAIT_FREE_POLLS && wait->waits % PROBE_EVERY == 1)
		return (struct ladder_action){MPIWAIT_RUNG_YIELD, 0, 0};
	if (!has_account())
		return ladder_next(&wait->ladder, &process.policy, moment);
	foreseen = forecast(wait, &moment, &action);
	if (foreseen != FORECAST_NONE)
		return action_pay(wait, action, foreseen);
	return action_pay(wait, ladder_next(&wait->ladder, &process.policy, moment), FORECAST_NONE);
}

/* What the sleep is to be charged, and how much later than asked such a one ends: only that of forecasts counts. */
static void account_learn(struct wait *wait, struct ladder_action action)
{
	struct foresight *foresight = &wait->foresight;
	enum event_end end = wait->rung.event;

	if (action.rung == MPIWAIT_RUNG_EVENT && (end == EVENT_WOKEN || end == EVENT_TIMEOUT))
		foresight_woken(foresight, action.ask_ns, wait->last_ns, end == EVENT_WOKEN);
	else if (foresight->advised || action.rung == rung_timed(is_shared(wait)))
		foresight_woke(foresight, action.ask_ns, wait->last_ns);
	else
		account_woke(&foresight->nap, wait->last_ns);
}

/* What the doze teaches, which ended at wait->last_ns. */
static void action_learn(struct wait *wait, struct ladder_action action, uint64_t began_ns)
{
	struct foresight *foresight = &wait->foresight;
	uint64_t actual_ns = wait->last_ns - began_ns, late_ns = 0;

	if (!foresight->nap.open || !foresight->advised || action.rung == MPIWAIT_RUNG_EVENT)
		late_ns = ladder_learn(&wait->ladder, action, actual_ns, wait->last_ns);
	account_learn(wait, action);
	if (!has_account() && late_ns > 0) {
		wait->lane->late++;
		wait->lane->late_ns += late_ns;
	}
	if (action.rung == MPIWAIT_RUNG_YIELD)
		shared_learn(wait, actual_ns);
}

static void wait_act(struct wait *wait, uint32_t hook)
{
	uint64_t began_ns = wait->last_ns, now_ns;
	struct mpiwait_lane *lane = wait->lane;
	struct ladder_action action;
	const struct rung *rung;

	foresight_quiet(&wait->foresight, &process.account);
	action = action_choose(wait, hook);
	rung = &rung_table[action.rung];
	rung->doze(action.ask_ns, &wait->rung);
	lane->naps[action.rung]++;
	if (rung->instant)
		return;
	wait->dozed = 1;
	wait->quiet = 0;
	now_ns = clock_now_ns();
	account_woke(&wait->foresight.nap, began_ns + action.ask_ns);
	if (clock_jumped(wait, now_ns, action.ask_ns))
		return;
	wait->last_ns = lane->open_last_ns = now_ns;
	lane->asleep_ns[action.rung] += wait->last_ns - began_ns;
	action_learn(wait, action, began_ns);
}

/* The same where the end is forecast: at once, if it is far enough, and back before it comes. */
static bool lasts_by_forecast(const struct wait *wait, bool low)
{
	uint64_t landing_ns = wait->foresight.landing_ns;
	uint64_t left_ns = landing_ns > wait->last_ns ? landing_ns - wait->last_ns : 0;

	return left_ns >= CLOCK_BACK_NS + (low ? 0 : process.pstate_after_ns) && !wait->rma_lock;
}

/*
 * At low frequency for the rest of the wait, or until there is a sign of progress; never under the cap for locks. After
 * each such sign it takes twice as long: a wait of many steps, or of false signs, changes the frequency a few times.
 */
static void wait_lower(struct wait *wait)
{
	uint64_t origin_ns = foresight_origin(&wait->foresight, wait->origin_ns);
	bool foreseen = wait->foresight.landing_ns != 0, low = rung_pstate_is_low(&wait->rung);
	bool lasts = foreseen ? lasts_by_forecast(wait, low)
	                      : wait->last_ns - origin_ns >= wait->lower_ns && !wait->rma_lock;

	if (low && !lasts && !foreseen && wait->lower_ns < HOUR_NS)
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
		wait_lower(wait);
	if (++wait->quiet >= process.burst)
		wait_act(wait, hook);
	return true;
}
