/*
 * Idle: the hooks, functions that an MPI runtime calls from its own wait loop when it finds nothing to do. The runtime
 * is the MPI library of the process, with the libraries below it that poll for messages. "The library" is this one.
 *
 * Invariant: outside of a blocking call of the thread, a hook does what would have happened without the library. A hook
 * asks the loader only for the function that it wraps. opal_progress does so once, and only in a process that uses no
 * MPI function (mpirun). ucp_worker_progress asks at the first call from each object (up to 8; at each call from
 * further ones), since a process may have several copies of UCX. The hook of libfabric asks whenever a fabric is
 * opened.
 *
 * idle.c is the table of runtimes: which hooks serve each, and what must be switched on for them. There is one file per
 * hook.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"

/* A range of code; size 0: none. */
struct idle_text {
	uintptr_t start, size;
};

/* Facts about the runtime, for the hooks. All zero until Init has returned, and constant afterwards, unless noted. */
struct idle {
	struct idle_text mpi;  /* the MPI library, from which MPICH and Intel MPI yield */
	struct idle_text opal; /* libopen-pal, from which opal_progress yields */
	struct idle_text own;  /* our own code, from which it seems to yield if it ends in a jump */
	uintptr_t caller;      /* latest caller of its yield; changes */
	bool yields_for_us;    /* the library switched yielding on */
	bool yields_natively;  /* the runtime yields in blocking calls without the library too */
	bool probes_spin;      /* Probe and Mprobe make no idle call, or restart at each poll */
	bool takes_fabrics;    /* queues of libfabric are watched; set when Init starts */
	bool misses_queues;    /* some queue could not be watched */
};

extern struct idle idle;

/* Bit of idle_frame: that opal_progress has yielded. */
#define IDLE_FRAME_YIELDED ((uintptr_t)1)

/* Stack address of the innermost opal_progress that runs in the thread; 0: none runs. */
extern __thread uintptr_t idle_frame __attribute__((tls_model("initial-exec")));

/*
 * Sets the environment variables that this runtime reads while it starts. To be called before the first Init of the
 * process. by_thread: it is Init_thread, so that threads may follow. The user's variables stay, and if they mean that
 * an idle call does not yield, none is set. Allocates, as setenv does: Init is the one call where that is harmless,
 * since no other thread may use MPI yet.
 */
void idle_prepare(enum mpiwait_family family, bool by_thread);

/* Unsets the variables that idle_prepare set, so that no child of the program sees them. */
void idle_restore(void);

/*
 * Switches on the hooks of the runtime that idle_prepare found. To be called after Init. Returns the MPIWAIT_HOOK_*
 * that the runtime calls; 0: none is known, or the user told the runtime to sleep or spin.
 */
uint32_t idle_switch_on(void);

/* Finds the function that the hook wraps, one file per hook. Returns true if there is one. */
bool idle_opal_switch_on(void);
bool idle_ucx_switch_on(void);
bool idle_ofi_switch_on(void);
