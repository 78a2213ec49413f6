/*
 * Enters and leaves calls. The contract stands in entry.h.
 */
#include "preload/wait/entry.h"

#include "preload/wait/loop.h"
#include "preload/wait/presleep.h"

uint32_t wait_enter(enum call_row row, enum call_kind kind, bool rma_lock, uintptr_t here)
{
	struct wait *wait = &wait_self;
	uint32_t mode = process_mode();

	if (mode == PROCESS_INERT)
		return PROCESS_INERT;
	if (__builtin_expect(wait->loop.vain != 0, 0))
		loop_end(wait);
	if (__builtin_expect(wait->outer != 0 || !wait->lane, 0) && !wait_prepare(wait, here))
		return PROCESS_INERT;
	wait_begin(row, kind, rma_lock, here);
	if (__builtin_expect((wait->lane->calls[row].calls & watch_table[row].mask) == 0, 0)) {
		wait->entered_ns = clock_now_ns();
		return watch_table[row].short_ns ? mode : watch_open(wait, row, mode);
	}
	return PROCESS_ACTS | (mode & PROCESS_PROFILES);
}

/* Learns from a call that lasted longer than its row's calls usually do, or that was slept before. */
static __attribute__((noinline)) void learn(struct wait *wait, uint64_t lasted_ns)
{
	if (wait->presleep != PRESLEEP_NONE)
		presleep_end(wait, clock_now_ns());
	watch_learn(wait, lasted_ns);
}

/* Learns how long a watched call has lasted. Called at its exit, if wait->entered_ns was set at its entry. */
static void watch_close(struct wait *wait)
{
	uint64_t lasted_ns = clock_now_ns() - wait->entered_ns;

	wait->entered_ns = 0;
	if (__builtin_expect(lasted_ns > watch_table[wait->row].short_ns, 0))
		learn(wait, lasted_ns);
	else if (process_mode() & PROCESS_PROFILES)
		wait->lane->calls[wait->row].time_ns += lasted_ns;
}

void wait_leave(uint32_t mode)
{
	struct wait *wait = &wait_self;

	if (mode == PROCESS_INERT)
		return;
	if (__builtin_expect(wait->polls >= WAIT_FREE_POLLS, 0))
		wait_close(wait);
	if (__builtin_expect(wait->entered_ns != 0, 0))
		watch_close(wait);
	wait->kind = CALL_NONE;
	wait->outer = 0;
}

uint32_t wait_mark(enum call_row row, bool loops, uintptr_t here)
{
	struct wait *wait = &wait_self;
	uint32_t kind = wait->kind;

	if (process_mode() == PROCESS_INERT)
		return kind;
	wait->kind = CALL_NONE;
	if (here < wait->outer)
		return kind;
	if (__builtin_expect(wait->outer != 0 || !wait->lane, 0))
		wait_prepare(wait, here);
	wait->lane->calls[row].calls++;
	if (__builtin_expect(loops, 0))
		loop_enter(row, here);
	else if (__builtin_expect(wait->loop.vain != 0, 0))
		loop_end(wait);
	return CALL_NONE;
}
