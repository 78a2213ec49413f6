/*
 * Process: the state of the whole process, its configuration, its slot, and whether the library acts.
 *
 * Invariant: the library acts if process_mode() says so, in the process that called MPI_Init and in no child of it.
 * Otherwise it only forwards. wrap/start.h starts and ends it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/forecast.h"
#include "preload/budget/ladder.h"
#include "preload/contract/stats.h"
#include "preload/process/config.h"

/*
 * Bits of a mode. PROCESS_PREWAITS and PROCESS_PRESLEEPS belong to single calls (prewait.h, presleep.h), PROCESS_LOOPS
 * to loop.h.
 */
enum {
	PROCESS_INERT = 0,
	PROCESS_ACTS = 1,
	PROCESS_PROFILES = 2,
	PROCESS_TIMES = PROCESS_ACTS | PROCESS_PROFILES,
	PROCESS_PREWAITS = 4,
	PROCESS_LOOPS = 8,
	PROCESS_PRESLEEPS = 16
};

/* The process's mode, on a page that a forked child finds zeroed: the child is inert without being asked. */
struct process_guard {
	uint32_t mode; /* PROCESS_ACTS, perhaps with PROCESS_PROFILES and PROCESS_LOOPS */
};

/* The state of the process. */
struct process {
	struct config config;
	struct ladder_policy policy;
	struct forecast *forecasts; /* MPIWAIT_LANES forecasts; NULL: no forecasts, and no account for naps */
	uint64_t opened_ns;         /* time when the accounts were opened */
	struct mpiwait_slot *slot;
	struct mpiwait_header *node; /* shared by the ranks of this node */
	uint32_t hooks;              /* MPIWAIT_HOOK_* that may spend time; none before Init returns */
	uint32_t locked_hooks;       /* MPIWAIT_HOOK_* that the runtime calls under its lock */
	uint32_t burst;              /* quiet polls before time may be spent */
	uint64_t pstate_after_ns;    /* a wait this long goes on at low frequency; UINT64_MAX: never */
	uint32_t phase;              /* index of the program's phase in the tables of contract/stats.h (phase.h) */
	bool silent;                 /* the runtime does not tell its progress */
	bool unhooked;               /* no hook serves: forecasts only serve sleeps before calls (presleep.h) */
	bool threaded;               /* a second thread has called MPI */
	bool starting;               /* inside the first Init */
};

extern struct process_guard *process_guard;
extern struct process process;

/* Returns PROCESS_INERT, or bits of what the library does in this process. */
static inline uint32_t process_mode(void)
{
	return process_guard->mode;
}

/* Returns true if waits that hooks see are forecast, and their naps charged to the account. */
static inline bool process_has_account(void)
{
	return process.forecasts != NULL && !process.unhooked;
}

/* Gives the guard a page of its own. Returns true if a forked child will find it zeroed. */
bool process_guard_make(void);

/* Set a MPIWAIT_FLAG_* in the slot, or the MPIWAIT_HOOK_* of a hook that has served. */
void process_flag(uint32_t flag);
void process_hook(uint32_t hook);

/* Makes waits not rely on being woken from now on. */
void process_event_end(void);
