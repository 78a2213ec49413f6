/*
 * Sleeps before collectives. The contract stands in presleep.h.
 */
#include "preload/wait/presleep.h"

#include <errno.h>

#include "preload/mpi/query.h"
#include "preload/process/clock.h"
#include "preload/process/process.h"
#include "preload/rung/rung.h"
#include "preload/wait/act.h"
#include "preload/wait/wait.h"
#include "preload/wait/watch.h"

void presleep_start(void)
{
	for (uint32_t row = 0; row < CALL_ROWS && process.forecasts; row++)
		if (PRESLEEP_CAN(row) && watch_table[row].before == 0)
			watch_offer((enum call_row)row, PROCESS_PRESLEEPS);
}

/* Returns true if the call moves anything: otherwise no rank needs to come. Does not look at arrays of counts. */
static bool moves_something(enum call_row row, bool large, const uintptr_t *arguments)
{
	uintptr_t count = 1;

	if (row == ROW_Allreduce || row == ROW_Reduce_scatter_block)
		count = arguments[2];
	else if (row == ROW_Allgather || row == ROW_Alltoall)
		count = arguments[4];
	return (large ? (int64_t)count : (int)count) > 0;
}

/*
 * Naps for ask_ns. Returns false if the clock jumped or the process was stopped: then the call would teach nothing
 * true.
 */
static bool nap(struct wait *wait, enum mpiwait_rung rung, bool shared, uint64_t ask_ns)
{
	struct mpiwait_lane *lane = wait->lane;
	uint64_t began_ns = wait->last_ns, now_ns;

	rung_table[rung].doze(ask_ns, &wait->rung);
	lane->naps[rung]++;
	now_ns = clock_now_ns();
	if (now_ns - began_ns > ask_ns + WAIT_STOPPED_NS) {
		plan_drop(&wait->plan);
		plan_quiet(&wait->plan);
		return false;
	}
	wait->last_ns = lane->open_last_ns = now_ns;
	lane->asleep_ns[rung] += now_ns - began_ns;
	plan_woke(&wait->plan, (struct plan_nap){.end = PLAN_BY_FORECAST,
	                                         .began_ns = began_ns,
	                                         .ask_ns = ask_ns,
	                                         .woke_ns = now_ns,
	                                         .shared = shared || wait_was_held(wait, rung, began_ns + ask_ns),
	                                         .alike = true});
	wait->plan.empty_ns = wait->first_ns; /* no poll has shown since then that nothing came */
	return true;
}

/* Naps until the landing, in parts where the account, a look or the rung allows no longer nap, and counts the wait. */
static enum presleep sleep_until_landing(struct wait *wait)
{
	struct mpiwait_lane *lane = wait->lane;
	bool shared = wait_is_shared(wait);
	enum mpiwait_rung rung = wait_rung_timed(shared);
	uint64_t most_ns = wait->ladder.rung[rung].most_ns;
	struct plan_step step = plan_ask(&wait->plan, wait->last_ns, most_ns);

	if (step.advice != PLAN_NAP || rung == MPIWAIT_RUNG_PAUSE)
		return PRESLEEP_OPEN;
	if (!(process.slot->flags & MPIWAIT_FLAG_PRESLEEPS))
		process_flag(MPIWAIT_FLAG_PRESLEEPS);
	lane->open_since_ns = lane->open_last_ns = wait->first_ns;
	__atomic_store_n(&lane->open_call, wait->row + 1, __ATOMIC_RELEASE);
	while (step.advice == PLAN_NAP && nap(wait, rung, shared, step.ask_ns))
		step = plan_ask(&wait->plan, wait->last_ns, most_ns);
	rung_leave(&wait->rung);
	wait_book(wait, wait->last_ns - wait->first_ns);
	__atomic_store_n(&lane->open_call, 0, __ATOMIC_RELEASE);
	return PRESLEEP_SLEPT;
}

void presleep_begin(bool large, const uintptr_t *arguments)
{
	struct wait *wait = &wait_self;
	int saved = errno;

	if (moves_something((enum call_row)wait->row, large, arguments) && query_is_crowd(wait->handle)) {
		process.slot->slowdown_ppm = process.config.slowdown_ppm;
		wait->first_ns = wait->last_ns = wait->entered_ns;
		if (process.config.sites)
			wait->caller = wait_caller(wait);
		wait_plan(wait, wait->entered_ns);
		wait->presleep = (uint8_t)sleep_until_landing(wait);
	}
	errno = saved;
}

/*
 * Gives up sleeping before calls of the row: the open call made an idle call. The call's hook has opened the plan anew,
 * closed it, and counted the wait.
 */
static void give_up(struct wait *wait, enum presleep before)
{
	if (before == PRESLEEP_SLEPT)
		wait->lane->calls[wait->row].waits--;
	watch_end((enum call_row)wait->row);
}

void presleep_end(struct wait *wait, uint64_t now_ns)
{
	struct plan *plan = &wait->plan;
	uint64_t took_ns = now_ns - wait->last_ns;
	enum presleep before = wait->presleep;
	bool forecasts = plan->forecasts;

	wait->presleep = PRESLEEP_NONE;
	if (wait->polls >= WAIT_FREE_POLLS) {
		give_up(wait, before);
		return;
	}
	if (forecasts && !plan_is_late(plan, now_ns))
		plan_quiet(plan); /* the last rank came after the nap */
	plan_close(plan, now_ns);
	if (forecasts)
		forecast_own(plan->forecast, took_ns);
	plan->landing_ns = 0;
}
