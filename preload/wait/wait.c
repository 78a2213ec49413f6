/*
 * Reads the clock for a wait that lasts, and accounts for it. The invariant stands in wait.h.
 */
#include "preload/wait/wait.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/wait/callsite.h"

#define EVENT_BENCH_NS  UINT64_C(1000000)
#define SAMPLE_AFTER_NS UINT64_C(1000000)
#define OTHERS_SHARE    256 /* divisor of a wait: other threads' CPU time below this part is an error of the readings */
#define FREE_NS         6000 /* time that the free polls may take */
#define FREE_LEAST      (WAIT_FREE_POLLS / 8)
#define PACE_NS         1000 /* first guess of the gap between idle polls */
#define PACE_DOZED_NS   2000 /* first guess of the gap after a doze */

__thread struct wait wait_self __attribute__((tls_model("initial-exec")));

/* Rows whose calls only messages end. One-sided waits and files may move by other ways. */
static const bool by_messages[CALL_ROWS] = {
#define CALL(name, arguments, kind, large, group, ...) GROUP_##group == GROUP_P2P || GROUP_##group == GROUP_COLLECTIVE,
#include "preload/contract/mpi_calls.def"
#undef CALL
};

bool wait_is_by_messages(enum call_row row)
{
	return by_messages[row];
}

struct event_trust wait_event_trust;

uint8_t wait_few_polls[CALL_ROWS];

/* Lanes of the threads beyond MPIWAIT_LANES. Nobody reads them: several, so that not all threads write the same one. */
static struct mpiwait_lane lane_overflow[8 * MPIWAIT_LANES];

/*
 * Claims a lane of the slot. A thread beyond MPIWAIT_LANES gets one that nobody reads. The second thread ends what only
 * a single thread may do.
 */
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
		return &lane_overflow[index % (8 * MPIWAIT_LANES)];
	}
	slot->lane[index].tid = (uint32_t)syscall(SYS_gettid);
	return &slot->lane[index];
}

static bool is_read(const struct mpiwait_lane *lane)
{
	return lane < lane_overflow || lane >= lane_overflow + 8 * MPIWAIT_LANES;
}

/* Gives a thread the forecasts that belong to its lane. A thread without a lane of its own naps by the ladder alone. */
static void plan_prepare(struct plan *plan, struct mpiwait_lane *lane)
{
	struct forecast *forecast = NULL;

	if (process.forecasts && is_read(lane)) {
		forecast = &process.forecasts[lane - process.slot->lane];
		forecast->ranks = process.slot->size > 0 ? (uint32_t)process.slot->size : 0;
	}
	plan_start(plan, forecast, lane, process.node, process.slot->launch,
	           process.unhooked ? process.config.slowdown_ppm : process.slot->slowdown_ppm, process.opened_ns);
}

static int64_t preemptions_read(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* Gives the thread what it knows at first. */
static void knowledge_reset(struct wait *wait)
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
	plan_prepare(&wait->plan, wait->lane);
}

/* Prepares the thread's state at its first call, and gives it a lane. */
static void thread_prepare(struct wait *wait)
{
	wait->lane = lane_claim();
	wait->rung.lane = wait->lane;
	wait->preemptions = preemptions_read();
	knowledge_reset(wait);
}

/* Forgets what was learned by another clock: a checkpoint may go on where the host was booted later. */
static void knowledge_forget(struct wait *wait, uint64_t now_ns)
{
	process.opened_ns = now_ns;
	wait->shared_ns = 0;
	if (wait->plan.forecast)
		memset(wait->plan.forecast, 0, sizeof(*wait->plan.forecast));
	knowledge_reset(wait);
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
	wait->presleep = PRESLEEP_NONE;
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

/* Judges the latest sleep for an event, now that the polls after it have shown if anything came (found). */
static void event_judge(struct wait *wait, bool found)
{
	enum event_end end = wait->rung.event;

	if (end == EVENT_NONE)
		return;
	wait->rung.event = EVENT_NONE;
	wait->rung.event_missed = end == EVENT_TIMEOUT && found;
	wait->lane->event_wakes += end == EVENT_WOKEN && found;
	wait->lane->event_lost += end == EVENT_LOST;
	if (event_learn(&wait_event_trust, end, found))
		process_event_end();
	else if (event_is_refused(&wait_event_trust))
		wait->ladder.rung[MPIWAIT_RUNG_EVENT].back_ns = wait->last_ns + EVENT_BENCH_NS;
}

/* Returns the number of the open call. The calls of a loop of the program's own count as one. */
static uint32_t call_number(const struct wait *wait)
{
	return wait->loop.open ? wait->waits : (uint32_t)wait->lane->calls[wait->row].calls;
}

/*
 * Forecasts only waits that end by messages if the runtime is silent. In any other wait, other ranks may need this one
 * without sending it a message. Of several threads one polls for all that wait: what its naps by forecast held up for
 * another thread, no period of its own would show. The ladder's naps are charged whole if anything came meanwhile.
 */
void wait_plan(struct wait *wait, uint64_t now_ns)
{
	bool forecasts = wait->kind == CALL_WAIT && !wait->rma_lock;

	if (process.silent ? !wait_is_by_messages((enum call_row)wait->row)
	                   : !process.unhooked && __atomic_load_n(&process.threaded, __ATOMIC_RELAXED))
		forecasts = false;
	plan_open(&wait->plan, forecast_call(wait_caller(wait), wait->row, wait->handle, wait->peer), call_number(wait),
	          forecasts, now_ns, clock_read_ns(CLOCK_REALTIME));
}

/* Opens a wait at the first clock reading of a call, past the first WAIT_FREE_POLLS idle polls. */
static void wait_open(struct wait *wait, uint64_t now_ns)
{
	struct mpiwait_lane *lane = wait->lane;

	if (now_ns < wait->last_ns)
		knowledge_forget(wait, now_ns);
	wait->first_ns = wait->origin_ns = wait->last_ns = now_ns;
	wait->sample_ns = 0;
	wait->lower_ns = process.pstate_after_ns;
	wait->rung.event = EVENT_NONE;
	wait->pace.held_ns = 0;
	wait->quiet = 0;
	wait->dozed = 0;
	wait->waits++;
	if (process.config.sites)
		wait->caller = wait_caller(wait);
	if (process_has_account())
		wait_plan(wait, now_ns);
	lane->open_since_ns = lane->open_last_ns = now_ns;
	__atomic_store_n(&lane->open_call, wait->row + 1, __ATOMIC_RELEASE);
}

bool wait_skip_stop(struct wait *wait, uint64_t now_ns, uint64_t asked_ns)
{
	uint64_t gap_ns = now_ns - wait->last_ns;

	if (now_ns < wait->last_ns) {
		wait_open(wait, now_ns);
		return true;
	}
	if (gap_ns <= WAIT_STOPPED_NS || gap_ns - WAIT_STOPPED_NS <= asked_ns)
		return false;
	plan_drop(&wait->plan);
	wait->first_ns += gap_ns;
	wait->origin_ns += gap_ns;
	wait->lane->open_since_ns += gap_ns;
	wait->last_ns = now_ns;
	wait->sample_ns = 0;
	return true;
}

/* Checks if the thread lost its core between two polls without a doze. A loop of polls alone never shows that. */
static void preemption_check(struct wait *wait, uint64_t now_ns)
{
	int64_t before = wait->preemptions;

	if (wait->dozed || now_ns - wait->last_ns < WAIT_SLICE_NS)
		return;
	wait->preemptions = preemptions_read();
	if (wait->preemptions == before)
		return;
	process_flag(MPIWAIT_FLAG_SHARED_CORES);
	wait->shared_ns = now_ns + WAIT_SHARED_NS;
}

/*
 * Checks for signs of progress since the latest poll. A sign begins the wait anew for the ladder. After a gap that may
 * be one, the thread polls another burst before it dozes.
 */
static void progress_check(struct wait *wait, uint64_t now_ns)
{
	enum ladder_sign sign;

	preemption_check(wait, now_ns);
	sign = ladder_gap(&wait->pace, wait->dozed, now_ns, now_ns - wait->last_ns);
	if (wait->progressed || now_ns - wait->origin_ns > WAIT_HOUR_NS)
		sign = LADDER_PROGRESS;
	if (process_has_account() && wait->progressed)
		plan_progress(&wait->plan, wait->last_ns, now_ns);
	if (sign == LADDER_PROGRESS)
		wait->origin_ns = now_ns;
	if (sign != LADDER_QUIET)
		wait->quiet = 0;
}

/*
 * Returns true for the first thread that called MPI. Of the threads that wait at the same time, this one counts the
 * others.
 */
static bool counts_others(const struct wait *wait)
{
	return wait->lane == process.slot->lane;
}

/* Begins a sample of the CPU time that the rest of the wait takes. */
static void sample_begin(struct wait *wait, uint64_t now_ns)
{
	wait->sample_ns = now_ns;
	wait->sample_cpu_ns = clock_thread_cpu_ns();
	if (counts_others(wait))
		wait->sample_others_ns = clock_process_cpu_ns() - wait->sample_cpu_ns;
}

/* Counts most of a long wait's polls before their number wraps: 2^32 polls of 0.1 us take seven minutes. */
static void polls_settle(struct wait *wait)
{
	const uint32_t part = UINT32_MAX / 4 + 1;

	if (wait->polls < 2 * part)
		return;
	wait->lane->idle_polls += part;
	wait->polls -= part;
}

void wait_clock(struct wait *wait, uint64_t now_ns)
{
	polls_settle(wait);
	if (wait->polls == WAIT_FREE_POLLS)
		wait_open(wait, now_ns);
	else if (!wait_skip_stop(wait, now_ns, 0))
		progress_check(wait, now_ns);
	event_judge(wait, wait->progressed);
	wait->progressed = 0;
	wait->dozed = 0;
	wait->last_ns = now_ns;
	wait->lane->open_last_ns = now_ns;
	if (wait->sample_ns == 0 && now_ns - wait->first_ns >= SAMPLE_AFTER_NS && !wait->loop.open)
		sample_begin(wait, now_ns);
}

/*
 * Returns the CPU time of other threads in the sample. The clocks are read later than the last poll, so only the
 * sample's portion of the time counts.
 */
static uint64_t others_used(const struct wait *wait, uint64_t sampled_ns, uint64_t now_cpu_ns)
{
	uint64_t since_ns = clock_now_ns() - wait->sample_ns;
	uint64_t used_ns = clock_process_cpu_ns() - now_cpu_ns - wait->sample_others_ns;

	/* The two clocks are read one after the other: a difference that small, to either side, is no thread's. */
	if (since_ns == 0 || (int64_t)used_ns <= (int64_t)(since_ns / OTHERS_SHARE))
		return 0;
	return (uint64_t)((double)used_ns / (double)since_ns * (double)sampled_ns);
}

/* Another thread may change the phase meanwhile. */
static void phase_add(struct mpiwait_lane *lane, uint64_t wait_ns)
{
	struct mpiwait_phase_stats *phase = &lane->phases[__atomic_load_n(&process.phase, __ATOMIC_RELAXED)];

	phase->waits++;
	phase->wait_ns += wait_ns;
}

/* The CPU time is read later than the last poll: the little beyond the sampled time is not counted. */
static void sample_add(const struct wait *wait)
{
	uint64_t sampled_ns = wait->last_ns - wait->sample_ns;
	uint64_t now_cpu_ns = clock_thread_cpu_ns(), cpu_ns = now_cpu_ns - wait->sample_cpu_ns;

	wait->lane->sampled_ns += sampled_ns;
	wait->lane->sampled_cpu_ns += cpu_ns < sampled_ns ? cpu_ns : sampled_ns;
	if (counts_others(wait))
		wait->lane->threads_cpu_ns += others_used(wait, sampled_ns, now_cpu_ns);
}

void wait_book(struct wait *wait, uint64_t wait_ns)
{
	struct mpiwait_call_stats *call = &wait->lane->calls[wait->row];

	call->waits++;
	call->wait_ns += wait_ns;
	if (wait_ns > call->longest_ns)
		call->longest_ns = wait_ns;
	if (process_mode() & PROCESS_PROFILES)
		phase_add(wait->lane, wait_ns);
	if (process.config.sites)
		callsite_add(wait->row, wait->caller, wait_ns);
}

/*
 * Learns how many polls are free in the row's next calls, if the wait had polls enough to show what one takes. Under a
 * lock the clock is not read at each of them.
 */
static void free_learn(const struct wait *wait)
{
	bool shown = wait->polls >= 2 * WAIT_FREE_POLLS && wait->kind >= CALL_TIME &&
	             !__atomic_load_n(&process.threaded, __ATOMIC_RELAXED);
	uint64_t many = FREE_NS / (wait->pace.polled.ns + 1);

	many = many > FREE_LEAST ? many : FREE_LEAST;
	if (shown)
		__atomic_store_n(&wait_few_polls[wait->row], (uint8_t)(many < WAIT_FREE_POLLS ? many : 0),
		                 __ATOMIC_RELAXED);
}

void wait_close(struct wait *wait)
{
	struct mpiwait_lane *lane = wait->lane;
	uint32_t few = __atomic_load_n(&wait_few_polls[wait->row], __ATOMIC_RELAXED);

	rung_leave(&wait->rung);
	if (process_mode() == PROCESS_INERT)
		return;
	event_judge(wait, true);
	if (process_has_account())
		plan_close(&wait->plan, wait->last_ns);
	wait_book(wait, wait->last_ns - wait->first_ns);
	lane->idle_polls += wait->polls - (few > 0 ? WAIT_FREE_POLLS - few : 0);
	free_learn(wait);
	if (wait->sample_ns != 0)
		sample_add(wait);
	__atomic_store_n(&lane->open_call, 0, __ATOMIC_RELEASE);
}
