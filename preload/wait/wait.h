/*
 * The wait of one thread: the blocking call that the thread is in, since when it has had nothing to do, and the
 * accounting.
 *
 * Invariant: only the outermost call counts, and only its own thread writes its lane. A call that found its message
 * soon never reads a clock; the first WAIT_FREE_POLLS idle polls of every call only count, fewer where polls are slow
 * (wait_few_polls).
 *
 * The stack address of the outermost call's frame stands for the depth. A frame at or above that address means that the
 * call was left without returning (longjmp, exception). After such an exit, a later call from deeper down looks like an
 * inner call. It is not counted, but restarts the wait, so that no nap comes too early.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/ladder.h"
#include "preload/budget/plan.h"
#include "preload/mpi/calls.h"
#include "preload/process/clock.h"
#include "preload/process/process.h"
#include "preload/rung/event.h"
#include "preload/rung/rung.h"

#define WAIT_FREE_POLLS 64u

/* Idle polls after which nothing can have come, for a runtime that does not tell its progress. */
#define WAIT_VAIN_POLLS 16u

/* Idle polls for one reading of the clock, under a lock that other threads may want. The first one opens the wait. */
#define WAIT_LOCKED_POLLS WAIT_FREE_POLLS

/* Time beyond what was asked for, between two readings, that means: the clock jumped, or the process was stopped. */
#define WAIT_STOPPED_NS UINT64_C(1000000000)

#define WAIT_LOOP_CALLSITES 4u

/* No wait lasts longer: the clock has jumped. */
#define WAIT_HOUR_NS UINT64_C(3600000000000)

/* Somebody who has the core for WAIT_SLICE_NS computes on it. The core then counts as shared for WAIT_SHARED_NS. */
#define WAIT_SLICE_NS  UINT64_C(200000)
#define WAIT_SHARED_NS UINT64_C(100000000)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vain_least is the first byte of vain");

/* A loop of the program's own that asks in vain (loop.h). All zero: no loop. */
struct wait_loop {
	uintptr_t callsite[WAIT_LOOP_CALLSITES]; /* callsites that ask */
	uint32_t callsites;
	union {
		uint32_t vain;      /* number of calls in a row that were in vain */
		uint8_t vain_least; /* least significant byte of vain, for loop_time */
	};
	uint64_t left_ns; /* exit of the latest call, or latest sample under profile; 0: the clock was not read */
	uint64_t gaps_ns; /* sum of the long gaps between two calls of the open wait */
	bool open;        /* true while the loop waits */
};

/* The step before a call (presleep.h): none, its plan was opened, or the rank slept as well. */
enum presleep { PRESLEEP_NONE, PRESLEEP_OPEN, PRESLEEP_SLEPT };

struct wait {
	uintptr_t outer;           /* stack address of the outermost call; 0: in none */
	struct mpiwait_lane *lane; /* the thread's lane; NULL until its first call */
	uint32_t kind;             /* enum call_kind of the open call; CALL_NONE inside a MARK call */
	uint32_t row;              /* enum call_row of the outermost call */
	uint32_t rma_lock;         /* 1 if the open call is under the tighter cap for locks */
	uint32_t polls;            /* number of idle polls of the open call; WAIT_FREE_POLLS at the last free one */
	uint32_t progressed;       /* 1 if there was a sign of progress since the last idle poll */
	uintptr_t handle;          /* communicator or other handle that the open call was given */
	uintptr_t peer;            /* other rank of the open call, or its root */
	uintptr_t caller;          /* address that this wait was called from, if callsites are counted */
	uint64_t entered_ns; /* when the open call was entered, if it is watched (watch.h); 0: the clock was not read */
	uint64_t entered_cpu_ns; /* the thread's CPU time at entry; 0: not read */
	uint64_t first_ns;       /* first clock reading of this wait */
	uint64_t last_ns;        /* latest clock reading of this wait */
	uint64_t origin_ns;      /* from when the ladder counts: the first reading, or the one after the last sign of
	                            progress */
	uint32_t quiet;          /* number of idle polls since the last doze or sign of progress */
	uint32_t dozed;          /* 1 if time was spent after the last idle poll: what follows runs on cold caches */
	uint64_t lower_ns;       /* time without a sign of progress after which the core is lowered */
	uint64_t sample_ns;      /* when the CPU clocks were read; 0: not yet */
	uint64_t sample_cpu_ns;
	uint64_t sample_others_ns; /* the other threads' CPU time at sample_ns, since the process began */
	uint32_t waits;            /* number of waits; some of them probe if the core is shared */
	uint32_t shared_credit;    /* quick yields left until the core counts as the thread's own again */
	uint64_t shared_ns;        /* until when the core counts as shared, since somebody computed on it */
	int64_t preemptions;       /* number of the thread's preemptions at the latest reading */
	struct rung_thread rung;
	struct ladder ladder;
	struct ladder_pace pace;
	struct plan plan;
	struct wait_loop loop;
	uint8_t presleep;     /* enum presleep: what was done before the open call */
	uint64_t unlocked_ns; /* latest idle poll at which no lock of the runtime forbade a nap */
};

/*
 * Returns the address that the open call was called from. This costs a call without a wait nothing: the return address
 * lies beside the frame that stands for the call (x86-64, AArch64), or in the frame before it (ppc64le).
 */
static inline uintptr_t wait_caller(const struct wait *wait)
{
	const uintptr_t *frame = (const uintptr_t *)wait->outer;

#ifdef __powerpc64__
	return ((const uintptr_t *)frame[0])[2];
#else
	return frame[1];
#endif
}

/* Returns true if that hook runs under the runtime's lock, and other threads of the process may want the lock. */
static inline bool wait_is_locked(uint32_t hook)
{
	return process.locked_hooks & hook && __atomic_load_n(&process.threaded, __ATOMIC_RELAXED);
}

/*
 * Returns true if the thread may read the clock at the latest idle poll, which that hook saw: at every one, or, where
 * other threads may want a lock meanwhile, at one in WAIT_LOCKED_POLLS.
 */
static inline bool wait_may_read_clock(const struct wait *wait, uint32_t hook)
{
	return !wait_is_locked(hook) || wait->polls % WAIT_LOCKED_POLLS == 0;
}

/*
 * Atomic. By row: number of free polls where idle polls are slow; 0: WAIT_FREE_POLLS. As many are free as take 6 us by
 * the usual time between two polls, but an eighth of WAIT_FREE_POLLS at least. 64 polls over libfabric took up to 29
 * us, so that a wait of 0.3 ms polled a tenth of its time before it could sleep (measured).
 */
extern uint8_t wait_few_polls[CALL_ROWS];

/* Counts an idle poll of the open call. Returns true from the last of the free ones on. */
static inline bool wait_count_poll(struct wait *wait)
{
	if (__builtin_expect(++wait->polls == __atomic_load_n(&wait_few_polls[wait->row], __ATOMIC_RELAXED), 0))
		wait->polls = WAIT_FREE_POLLS;
	return wait->polls >= WAIT_FREE_POLLS;
}

extern __thread struct wait wait_self __attribute__((tls_model("initial-exec")));

/*
 * Prepares for an outermost call that is the thread's first, or that found the remains of a call that never returned.
 * Returns false for a call from inside the open one, which counts as a sign of progress.
 */
bool wait_prepare(struct wait *wait, uintptr_t here);

/*
 * Returns true if the clock has jumped since the last reading. A clock that went backwards makes all readings
 * worthless: the wait is opened anew. A gap of over a second more than asked_ns means that the clock jumped, or that
 * the process was stopped (scontrol suspend) or at work: nobody waited meanwhile, so the gap is taken off the wait.
 */
bool wait_skip_stop(struct wait *wait, uint64_t now_ns, uint64_t asked_ns);

/*
 * Accounts for an idle poll of the open call at now_ns, past the first WAIT_FREE_POLLS, and learns what the poll shows.
 */
void wait_clock(struct wait *wait, uint64_t now_ns);

/* Returns true if calls of that row end by messages. One-sided waits and files may move by other ways. */
bool wait_is_by_messages(enum call_row row);

/* The process's trust in wake-ups: only a single thread sleeps until a message. */
extern struct event_trust wait_event_trust;

/* Closes a wait that read the clock. */
void wait_close(struct wait *wait);

/* Opens the plan of the open call, which began to wait at now_ns. Only where process.forecasts is set. */
void wait_plan(struct wait *wait, uint64_t now_ns);

/* Counts a wait of the open call that lasted wait_ns. */
void wait_book(struct wait *wait, uint64_t wait_ns);

/* Counts a call that was entered before the library acted. */
void wait_count(enum call_row row);
