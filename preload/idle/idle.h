/*
 * The idle hooks: functions that an MPI runtime calls from its own wait loop when it found nothing to do.
 *
 * Invariant: outside of a blocking call of the thread, a hook does what would have happened without the library. A
 * hook asks the loader for nothing but its own successor, once: for opal_progress in a process that uses no MPI
 * function (mpirun), and for ucp_worker_progress, which appears no earlier than inside MPI_Init. That of libfabric asks
 * for it whenever a fabric is opened.
 *
 * idle.c is the table of runtimes: which hooks serve each, and what has to be switched on for that. One file per hook.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"

/* Where code is; of size 0: in no place. */
struct idle_text {
	uintptr_t start, size;
};

/* Facts about the runtime, for the hooks: all zero until Init has returned, constant after that, but as it is said. */
struct idle {
	struct idle_text mpi;  /* the MPI library: MPICH and Intel MPI yield from there */
	struct idle_text opal; /* libopen-pal: opal_progress yields from there, ... */
	struct idle_text own;  /* ... or seems to do so from here, where it ends in a jump: its caller is ours */
	uintptr_t site;        /* from which it has yielded last: changes */
	bool yields_for_us;    /* yielding is on because of us */
	bool yields_natively;  /* in blocking calls, and would without us */
	bool probes_spin;      /* Probe and Mprobe make no idle call, or ask libfabric anew at each poll */
	bool takes_fabrics;    /* from the start of Init on: queues of libfabric are watched */
	bool misses_queues;    /* at least one could not be */
};

extern struct idle idle;

/* Of the thread: stack address of the innermost opal_progress that runs, 0: none; with the bit, once it has yielded. */
#define IDLE_FRAME_YIELDED ((uintptr_t)1)

extern __thread uintptr_t idle_frame __attribute__((tls_model("initial-exec")));

/*
 * Before the first Init of the process: puts into the environment what this runtime reads there while it starts;
 * by_thread: that is Init_thread, so that threads may follow. What the user has set stays, and nothing is put there
 * where it means that an idle call does not yield. Allocates, as setenv does; Init is the one call in which that is
 * harmless, since no other thread may use MPI yet. idle_restore takes the variables away again, so that no child of the
 * program sees them.
 */
void idle_prepare(enum mpiwait_family family, bool by_thread);
void idle_restore(void);

/*
 * After Init: makes the runtime that idle_prepare found call the hooks that are known for it. Returns the
 * MPIWAIT_HOOK_* that it calls; 0: none, because none is known or the user has told the runtime to sleep or spin.
 */
uint32_t idle_switch_on(void);

/* One file each: finds what the hook stands in front of. Returns whether it is there. */
bool idle_opal_switch_on(void);
bool idle_ucx_switch_on(void);
bool idle_ofi_switch_on(void);
