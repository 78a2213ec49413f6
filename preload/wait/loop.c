/*
 * The program's own loops. Their law stands in loop.h.
 */
#include "preload/wait/loop.h"

#include "preload/process/clock.h"
#include "preload/process/process.h"
#include "preload/wait/act.h"

static void loop_forget(struct wait_loop *loop)
{
	loop->callsites = 0;
	loop->vain = 0;
	loop->left_ns = 0;
}

void loop_end(struct wait *wait)
{
	if (wait->loop.open) {
		wait->loop.open = false;
		wait_close(wait);
		if (process_mode() & PROCESS_PROFILES)
			wait->lane->calls[wait->row].time_ns += wait->last_ns - wait->first_ns;
		wait->polls = 0;
	}
	loop_forget(&wait->loop);
}

/*
 * Learns that the loop calls from that callsite, while there is room and the clock is not yet read. Returns true if it
 * is known now.
 */
static bool callsite_learn(struct wait_loop *loop, uintptr_t callsite)
{
	for (uint32_t i = 0; i < loop->callsites; i++)
		if (loop->callsite[i] == callsite)
			return true;
	if (loop->callsites == WAIT_LOOP_CALLSITES || loop->vain >= LOOP_CALLS)
		return false;
	loop->callsite[loop->callsites++] = callsite;
	return true;
}

/* Makes an idle poll of the call. The call's kind is CALL_WAIT only during the poll. */
static void loop_poll(struct wait *wait, enum call_row row)
{
	if (!wait->loop.open) {
		wait->loop.open = true;
		wait->loop.gaps_ns = 0;
		wait->row = row;
		wait->rma_lock = 0;
		wait->handle = wait->peer = 0;
		wait->polls = WAIT_FREE_POLLS - 1;
	}
	wait->kind = CALL_WAIT;
	wait->polls++;
	wait_idle(wait, MPIWAIT_HOOK_LOOP);
	wait->kind = CALL_NONE;
	rung_leave(&wait->rung);
}

/* Counts a gap of gap_ns between two calls. Returns true if it, or the sum of gaps, means work of the program. */
static bool gap_count(struct wait *wait, uint64_t gap_ns)
{
	struct wait_loop *loop = &wait->loop;

	if (gap_ns < LOOP_OWN_NS)
		return false;
	if (!loop->open)
		return true;
	loop->gaps_ns += gap_ns;
	return loop->gaps_ns > LOOP_GAPS_NS + (loop->left_ns - wait->first_ns) / LOOP_GAPS_SHARE;
}

void loop_enter(enum call_row row, uintptr_t here)
{
	struct wait *wait = &wait_self;
	struct wait_loop *loop = &wait->loop;

	wait->outer = here;
	if (!callsite_learn(loop, wait_caller(wait))) {
		loop_end(wait);
		callsite_learn(loop, wait_caller(wait));
	} else if (loop->left_ns != 0 && gap_count(wait, clock_now_ns() - loop->left_ns)) {
		loop_end(wait);
	} else if (loop->vain >= 2 * LOOP_CALLS) {
		loop_poll(wait, row);
	}
	wait->outer = 0;
}

void loop_leave(bool vain)
{
	struct wait *wait = &wait_self;

	if (wait->outer != 0)
		return;
	if (!vain)
		loop_end(wait);
	else if (++wait->loop.vain >= LOOP_CALLS)
		wait->loop.left_ns = clock_now_ns();
}

void loop_sample(struct wait *wait, enum call_row row)
{
	uint64_t now_ns = clock_now_ns(), took_ns = now_ns - wait->loop.left_ns;

	wait->loop.vain += LOOP_TIMED;
	if (wait->loop.vain > LOOP_TIMED && took_ns <= LOOP_TIMED * LOOP_EACH_NS)
		wait->lane->calls[row].time_ns += took_ns;
	wait->loop.left_ns = now_ns;
}
