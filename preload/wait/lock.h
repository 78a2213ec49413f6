/*
 * The runtime's lock, as a thread sees it whose wait loop calls its hook under that: whether it may nap there.
 *
 * Invariant: a thread of several naps under the lock only where it is seen to hold one that it took by the function of
 * ours (idle/lock.c), so that another thread that wants it ends the nap, and only after no other has wanted one for as
 * long as bell_rest_ns says. So a thread that polls loses to such naps no more than a 64th of its time. Where it is not
 * seen, nothing naps under the lock once a second thread has called MPI.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/process/process.h"
#include "preload/rung/rung.h"

/* Where others may want the lock, the core is given away once in so many idle polls; where they do, the clock is looked
 * at as seldom. */
#define LOCK_POLLS 64u

/* Rungs that another thread can end, or that take no time. */
#define LOCK_RUNGS (1u << MPIWAIT_RUNG_PAUSE | 1u << MPIWAIT_RUNG_YIELD | 1u << MPIWAIT_RUNG_NAP)

/* Of one thread; all zero at first. */
struct wait_lock {
	uint32_t taken;   /* locks of the MPI library that the thread took; wraps */
	int32_t held;     /* those that it holds now */
	uint32_t own;     /* of these, those that it had to wait for */
	uint32_t opened;  /* taken, when the wait began */
	uint32_t seen;    /* those that other threads had to wait for, at the latest look */
	uint64_t seen_ns; /* when that grew last */
	uint64_t free_ns; /* when it withheld no nap last */
	bool proven;  /* the open wait holds a lock at its polls that others ring for, and lets it go between them */
	bool several; /* other threads of the process use MPI */
	bool wanted;  /* since the look before the latest one, by others */
	bool alone;   /* it was not */
	bool apart;   /* the same was not so a look earlier: the two are many polls apart */
};

/* A wait begins. */
static inline void lock_open(struct wait_lock *lock)
{
	lock->opened = lock->taken;
	lock->proven = lock->several = lock->wanted = false;
}

/* Whether the idle poll of a wait with that number is to be looked at, which was seen by that hook. */
static inline bool lock_lets_look(const struct wait_lock *lock, uint32_t polls, uint32_t hook)
{
	if (!(process.locked_hooks & hook) || (lock->proven ? lock->alone : !process.threaded))
		return true;
	return polls % LOCK_POLLS == 0;
}

/* Whether the core may be given away at that poll. Who holds the lock without a core keeps others waiting. */
static inline bool lock_lets_yield(const struct wait_lock *lock, uint32_t polls, uint32_t hook)
{
	return !(process.locked_hooks & hook) || !lock->several || polls % LOCK_POLLS == 0;
}

/* Such a poll at now_ns, by a hook under the lock: whether others have wanted it since the one before. */
void lock_look(struct wait_lock *lock, uint64_t now_ns);

/* Whether nothing may be slept now, by that hook. */
bool lock_withholds(const struct wait_lock *lock, uint32_t hook, uint64_t now_ns);

/* A nap under it has not begun, or was ended: somebody wants it. */
static inline void lock_wanted(struct wait_lock *lock, uint64_t now_ns)
{
	lock->alone = false;
	lock->seen_ns = now_ns;
}

/*
 * Between two polls of a wait that has made so many others come first, if they want the lock. On a core that they share
 * with this thread, one that was woken for it would otherwise get it at the end of this thread's time slice; on another
 * core, one that takes it again and again would find it taken nearly always. So the core is given away once, and the
 * lock left alone for a sixteenth of what the polls take (64 ns each, or more), a microsecond at most.
 */
void lock_offer(const struct wait_lock *lock, uint32_t polls, struct rung_thread *rung);
