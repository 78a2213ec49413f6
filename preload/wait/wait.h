/*
 * The wait of one thread: which blocking call it is in, since when it has had nothing to do, and the accounting.
 *
 * Invariant: only the outermost call counts, and only its own thread writes its lane. A call that found its message
 * soon never reads a clock; the first WAIT_FREE_POLLS idle polls of every call only count.
 *
 * The outermost frame's stack address stands for the depth. A frame at or above it means that the call it stood for
 * was left without returning (longjmp, exception); an inner call that is really a later one after such an exit, from
 * deeper down, is not counted, but restarts the wait, so it is not napped in too early.
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

/* So many idle polls show that nothing came where the runtime does not say so. */
#define WAIT_VAIN_POLLS 16u

/* Under the lock that other threads may want, the clock is read once in so many idle polls. */
#define WAIT_LOCKED_POLLS 64u

/* So much more than was asked for between two readings: the clock jumped, or the process was stopped. */
#define WAIT_STOPPED_NS UINT64_C(1000000000)

#define WAIT_LOOP_PLACES 4u

/* No wait lasts longer: the clock has jumped. */
#define WAIT_HOUR_NS UINT64_C(3600000000000)

/* Who has the core for so long computes on it; from then on the core counts as shared for so long. */
#define WAIT_SLICE_NS  UINT64_C(200000)
#define WAIT_SHARED_NS UINT64_C(100000000)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vain_least is the first byte of vain");

/* A loop of the program's own that asks in vain: loop.h. All zero: there is none. */
struct wait_loop {
	uintptr_t place[WAIT_LOOP_PLACES]; /* where it asks */
	uint32_t places;
	union {
		uint32_t vain;      /* calls in a row */
		uint8_t vain_least; /* its least significant byte: loop_time */
	};
	uint64_t left_ns; /* the exit of the latest one; 0: the clock was not looked at */
	uint64_t gaps_ns; /* of the open wait: between two calls, where it was long */
	bool open;        /* it waits */
};

/* Before a call (presleep.h): nothing, its plan was opened, or the rank slept, too. */
enum presleep { PRESLEEP_NONE, PRESLEEP_OPEN, PRESLEEP_SLEPT };

struct wait {
	uintptr_t outer;           /* stack address of the outermost call, 0: in none */
	struct mpiwait_lane *lane; /* NULL until the thread's first call */
	uint32_t kind;             /* enum call_kind of the open call; CALL_NONE inside a MARK call */
	uint32_t row;              /* of the outermost call */
	uint32_t rma_lock;         /* the open call is under the tighter cap */
	uint32_t polls;            /* idle polls of the open call */
	uint32_t progressed;       /* a sign of progress since the last idle poll */
	uintptr_t handle;          /* what it was given: a communicator or the like */
	uintptr_t peer;            /* another rank, or the root */
	uintptr_t caller;          /* of this wait: where it was called from, if that is asked for */
	uint64_t entered_ns;       /* 0: the clock was not looked at */
	uint64_t entered_cpu_ns;   /* the thread's, 0: likewise */
	uint64_t first_ns;         /* first clock reading of this wait */
	uint64_t last_ns;          /* latest one */
	uint64_t origin_ns;        /* of w: first reading, or the one after the last sign of progress */
	uint32_t quiet;            /* idle polls since the last doze or sign of progress */
	uint32_t dozed;            /* time was spent after the last idle poll: what follows runs on cold caches */
	uint64_t lower_ns;         /* without a sign of progress: the core is lowered */
	uint64_t sample_ns;        /* when the CPU clock was read, 0: not yet */
	uint64_t sample_cpu_ns;
	uint64_t sample_others_ns; /* the other threads' CPU time then, since the process began */
	uint32_t waits;            /* to probe every so many of them whether the core is shared */
	uint32_t shared_credit;    /* yields until the core counts as the thread's own again */
	uint64_t shared_ns;        /* until when it does not, since somebody who computes wants it */
	int64_t preemptions;       /* of the thread, when they were looked at last */
	struct rung_thread rung;
	struct ladder ladder;
	struct ladder_pace pace;
	struct plan plan;
	struct wait_loop loop;
	uint8_t presleep;     /* enum presleep: what was done before the open call */
	uint64_t unlocked_ns; /* latest idle poll at which no lock of the runtime forbade a nap */
};

/*
 * Where the open call was called from. It costs a call without a wait nothing to tell: the return address lies beside
 * the frame that stands for the call (x86-64, AArch64), or in the one before it (ppc64le).
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

/* Returns true if that hook runs under the runtime's lock, and other threads of the process may want that. */
static inline bool wait_is_locked(uint32_t hook)
{
	return process.locked_hooks & hook && __atomic_load_n(&process.threaded, __ATOMIC_RELAXED);
}

/* Returns true if the latest idle poll of the open call, seen by that hook, may read the clock. */
static inline bool wait_lets_look(const struct wait *wait, uint32_t hook)
{
	return !wait_is_locked(hook) || wait->polls % WAIT_LOCKED_POLLS == 0;
}

extern __thread struct wait wait_self __attribute__((tls_model("initial-exec")));

/*
 * The first call of a thread, or one that found the remains of a call that never returned. Returns false for a call
 * from inside the open one, in which it is a sign of progress.
 */
bool wait_prepare(struct wait *wait, uintptr_t here);

/*
 * Whether the clock has jumped since the last reading. A clock that went backwards makes all readings worthless; over
 * a second more than was asked for, it jumped, or the process was stopped (scontrol suspend) or at work: nobody waited
 * meanwhile.
 */
bool wait_jumped(struct wait *wait, uint64_t now_ns, uint64_t asked_ns);

/* An idle poll of the open call at now_ns, past the first WAIT_FREE_POLLS: its accounting, and what it shows. */
void wait_clock(struct wait *wait, uint64_t now_ns);

/* Whether calls of that row end by messages. One-sided waits and files may move by other ways. */
bool wait_is_by_messages(enum call_row row);

/* Of the process: only a single thread sleeps so. */
extern struct event_trust wait_event_trust;

/* The end of a wait that read the clock. */
void wait_close(struct wait *wait);

/* Opens the plan of the open call, which began to wait at now_ns. Only where process.forecasts is set. */
void wait_plan(struct wait *wait, uint64_t now_ns);

/* Counts a wait of the open call, which lasted for so long. */
void wait_book(struct wait *wait, uint64_t wait_ns);

/* Counts a call that was entered before the library acted. */
void wait_count(enum call_row row);
