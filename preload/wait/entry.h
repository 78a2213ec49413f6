/*
 * Enters and leaves MPI calls: what the wrappers do before and after the call itself.
 *
 * Invariant: a call that found its message soon costs a count and a few stores. Calls that are looked at more closely
 * (watch.h), and the loops that a program writes itself (loop.h), cost more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/mpi/calls.h"
#include "preload/process/process.h"
#include "preload/wait/wait.h"
#include "preload/wait/watch.h"

/* Returns true if wait_begin and wait_end are enough for the next call of that row. */
static inline __attribute__((always_inline)) bool wait_is_short(enum call_row row)
{
	const struct wait *wait = &wait_self;

	return process_mode() == PROCESS_ACTS && wait->outer == 0 && wait->lane &&
	       ((wait->lane->calls[row].calls + 1) & watch_table[row].mask) != 0;
}

static inline __attribute__((always_inline)) void wait_begin(enum call_row row, enum call_kind kind, bool rma_lock,
                                                             uintptr_t here)
{
	struct wait *wait = &wait_self;

	wait->outer = here;
	wait->kind = kind;
	wait->row = row;
	wait->rma_lock = rma_lock;
	wait->polls = 0;
	wait->lane->calls[row].calls++;
}

/* Notes what tells the open call from others. Forecasts cost a call without a wait no more than this. */
static inline __attribute__((always_inline)) void wait_tell(uintptr_t handle, uintptr_t peer)
{
	wait_self.handle = handle;
	wait_self.peer = peer;
}

static inline __attribute__((always_inline)) void wait_end(void)
{
	struct wait *wait = &wait_self;

	if (__builtin_expect(wait->polls >= WAIT_FREE_POLLS, 0))
		wait_close(wait);
	wait->kind = CALL_NONE;
	wait->outer = 0;
}

/*
 * Returns true if a call of that row is short under profile: every call is timed there, but this row needs no closer
 * look.
 */
static inline __attribute__((always_inline)) bool watch_is_short(enum call_row row)
{
	return wait_self.outer == 0 && wait_self.lane && watch_table[row].short_ns != 0;
}

/* Times a call for which watch_is_short held. Called at its exit, before wait_end. */
static inline __attribute__((always_inline)) void watch_time(enum call_row row, uint64_t lasted_ns)
{
	if (__builtin_expect(lasted_ns > watch_table[row].short_ns, 0))
		watch_learn(&wait_self, lasted_ns);
	else
		wait_self.lane->calls[row].time_ns += lasted_ns;
}

static inline __attribute__((always_inline)) bool mark_is_timed(void)
{
	return wait_self.outer == 0 && wait_self.lane;
}

/*
 * Returns true if a MARK call need only be counted: outside of any other call, the thread's kind is CALL_NONE already.
 */
static inline __attribute__((always_inline)) bool mark_is_short(void)
{
	return process_mode() == PROCESS_ACTS && wait_self.outer == 0 && wait_self.lane;
}

/*
 * Enters a WAIT or TIME call that is not short. Returns the mode for wait_leave: PROCESS_INERT if the call does not
 * count, for which wait_leave does nothing.
 */
uint32_t wait_enter(enum call_row row, enum call_kind kind, bool rma_lock, uintptr_t here);

/* Leaves the call that wait_enter entered. */
void wait_leave(uint32_t mode);

/*
 * Enters a MARK call. loops: the call may be one of a loop of the program's own. Returns the kind of the blocking call
 * that the thread is inside of, which wait_unmark restores.
 */
uint32_t wait_mark(enum call_row row, bool loops, uintptr_t here);

static inline void wait_unmark(uint32_t kind)
{
	wait_self.kind = kind;
}
