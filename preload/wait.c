/*
 * Clock and accounting of a wait that lasts, and the nap. Its invariant stands in wait.h.
 */
#include "preload/wait.h"

#include <sys/syscall.h>
#include <unistd.h>

#define HOUR_NS         UINT64_C(3600000000000)
#define SAMPLE_AFTER_NS UINT64_C(1000000)
#define YIELD_OWN_NS    1500 /* a yield that takes longer has let somebody else run */
#define SHARED_CREDIT   64   /* quick yields in a row after which the core counts as ours again */
#define PACE_NS         1000 /* between idle polls, and after a doze, to begin with */
#define PACE_DOZED_NS   2000
#define PROBE_EVERY     16 /* waits: a yield costs a quarter of a microsecond, a shared core everything */

__thread struct wait wait_self __attribute__((tls_model("initial-exec")));

/* For the threads beyond MPIWAIT_LANES: written by all of them, read by nobody. */
static struct mpiwait_lane lane_overflow;

static struct mpiwait_lane *lane_claim(void)
{
	struct mpiwait_slot *slot = process.slot;
	uint32_t index = __atomic_fetch_add(&slot->lanes, 1, __ATOMIC_ACQ_REL);

	if (index > 0)
		__atomic_store_n(&process.threaded, true, __ATOMIC_RELAXED);
	if (index >= MPIWAIT_LANES) {
		process_flag(MPIWAIT_FLAG_LANES_FULL);
		return &lane_overflow;
	}
	slot->lane[index].tid = (uint32_t)syscall(SYS_gettid);
	return &slot->lane[index];
}

static void thread_prepare(struct wait *wait)
{
	for (uint32_t i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		wait->ladder.rung[i] = (struct ladder_latency){
		        .timed = rung_table[i].timed,
		        .holds_core = rung_table[i].holds_core,
		        .exit_ns = rung_table[i].exit_ns,
		        .most_ns = rung_table[i].most_ns ? rung_table[i].most_ns() : 0,
		};
	wait->pace[0] = (struct ladder_pace){.usual_ns = PACE_NS, .factor = 8, .window = UINT32_MAX};
	wait->pace[1] = (struct ladder_pace){.usual_ns = PACE_DOZED_NS, .factor = 2, .window = 0xf};
	wait->lane = lane_claim();
	wait->rung.lane = wait->lane;
}

void wait_prepare(struct wait *wait)
{
	if (!wait->lane)
		thread_prepare(wait);
	if (wait->outer != 0 && wait->polls >= WAIT_FREE_POLLS)
		wait_close(wait);
	wait->polls = 0;
	wait->outer = 0;
}

void wait_count(enum call_row row)
{
	struct wait *wait = &wait_self;

	if (!wait->lane)
		wait_prepare(wait);
	wait->lane->calls[row].calls++;
}

static void wait_open(struct wait *wait, uint64_t now_ns)
{
	struct mpiwait_lane *lane = wait->lane;

	wait->first_ns = wait->origin_ns = wait->last_ns = now_ns;
	wait->sample_ns = 0;
	wait->quiet = 0;
	wait->dozed = 0;
	wait->waits++;
	lane->open_since_ns = lane->open_last_ns = now_ns;
	__atomic_store_n(&lane->open_call, wait->row + 1, __ATOMIC_RELEASE);
}

/* Signs of progress: w begins anew at each, and a mere hint of one costs the polls of another burst. */
static void wait_look(struct wait *wait, uint64_t now_ns)
{
	enum ladder_sign sign = ladder_gap(&wait->pace[wait->dozed], now_ns - wait->last_ns);

	if (wait->progressed || now_ns - wait->origin_ns > HOUR_NS)
		sign = LADDER_PROGRESS;
	if (sign == LADDER_PROGRESS)
		wait->origin_ns = now_ns;
	if (sign != LADDER_QUIET)
		wait->quiet = 0;
}

/* A clock that went backwards makes all readings worthless; one that jumped ahead only the waited time. */
static void wait_clock(struct wait *wait, uint64_t now_ns)
{
	if (wait->polls == WAIT_FREE_POLLS || now_ns < wait->last_ns)
		wait_open(wait, now_ns);
	else
		wait_look(wait, now_ns);
	wait->progressed = 0;
	wait->dozed = 0;
	wait->last_ns = now_ns;
	wait->lane->open_last_ns = now_ns;
	if (wait->sample_ns == 0 && now_ns - wait->first_ns >= SAMPLE_AFTER_NS) {
		wait->sample_ns = now_ns;
		wait->sample_cpu_ns = clock_thread_cpu_ns();
	}
}

void wait_close(struct wait *wait)
{
	struct mpiwait_lane *lane = wait->lane;
	struct mpiwait_call_stats *call = &lane->calls[wait->row];
	uint64_t wait_ns = wait->last_ns - wait->first_ns;

	rung_leave(&wait->rung);
	if (process_mode() == PROCESS_INERT)
		return;
	call->waits++;
	call->wait_ns += wait_ns;
	if (wait_ns > call->longest_ns)
		call->longest_ns = wait_ns;
	lane->idle_polls += wait->polls;
	if (wait->sample_ns != 0) {
		lane->sampled_ns += wait->last_ns - wait->sample_ns;
		lane->sampled_cpu_ns += clock_thread_cpu_ns() - wait->sample_cpu_ns;
	}
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

static struct ladder_action action_choose(struct wait *wait, uint32_t hook)
{
	struct ladder_moment moment = {
	        .now_ns = wait->last_ns,
	        .waited_ns = wait->last_ns - wait->origin_ns,
	        .cap_ns = wait->rma_lock ? process.config.rma_ns : UINT64_MAX,
	        .shared = process.config.shared || wait->shared_credit > 0,
	        .locked = hook_is_locked(hook),
	};

	if (wait->polls == WAIT_FREE_POLLS && wait->waits % PROBE_EVERY == 1)
		return (struct ladder_action){MPIWAIT_RUNG_YIELD, 0, 0};
	return ladder_next(&wait->ladder, &process.policy, moment);
}

static void wait_act(struct wait *wait, uint32_t hook)
{
	struct ladder_action action = action_choose(wait, hook);
	const struct rung *rung = &rung_table[action.rung];
	struct mpiwait_lane *lane = wait->lane;
	uint64_t began_ns = wait->last_ns, actual_ns, late_ns;

	rung->doze(action.ask_ns, &wait->rung);
	lane->naps[action.rung]++;
	if (rung->instant)
		return;
	wait->dozed = 1;
	wait->quiet = 0;
	wait->last_ns = clock_now_ns();
	lane->open_last_ns = wait->last_ns;
	actual_ns = wait->last_ns - began_ns;
	lane->asleep_ns[action.rung] += actual_ns;
	late_ns = ladder_learn(&wait->ladder, &process.policy, action, actual_ns, wait->last_ns);
	if (late_ns > 0) {
		lane->late++;
		lane->late_ns += late_ns;
	}
	if (action.rung == MPIWAIT_RUNG_YIELD)
		shared_learn(wait, actual_ns);
}

/* At low frequency for the rest of the wait, or until there is a sign of progress; never under the cap for locks. */
static void wait_lower(struct wait *wait)
{
	bool lasts = wait->last_ns - wait->origin_ns >= process.pstate_after_ns && !wait->rma_lock;

	if (lasts || rung_pstate_is_low(&wait->rung))
		rung_pstate_hold(&wait->rung, wait->last_ns, lasts);
}

bool wait_idle(struct wait *wait, uint32_t hook)
{
	if (process_mode() == PROCESS_INERT)
		return false;
	if (__builtin_expect(!(process.slot->hooks & hook), 0))
		process_hook(hook);
	wait->lane->hook_polls[__builtin_ctz(hook)]++;
	wait_clock(wait, clock_now_ns());
	if (wait->kind != CALL_WAIT || process.policy.rungs == 0)
		return false;
	if (process.pstate_after_ns != UINT64_MAX)
		wait_lower(wait);
	if (++wait->quiet >= process.burst)
		wait_act(wait, hook);
	return true;
}
