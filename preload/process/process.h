/*
 * What holds for the whole process: the configuration, the slot, and whether the library acts at all.
 *
 * Invariant: where process_mode() says so the library acts, in the process that called MPI_Init and in no child of it.
 * Elsewhere it only forwards. What makes it start and end is wrap/start.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/forecast.h"
#include "preload/budget/ladder.h"
#include "preload/contract/stats.h"
#include "preload/process/config.h"

/* PROCESS_PREWAITS and PROCESS_PRESLEEPS are of a single call: see prewait.h, presleep.h. PROCESS_LOOPS: see loop.h. */
enum {
	PROCESS_INERT = 0,
	PROCESS_ACTS = 1,
	PROCESS_PROFILES = 2,
	PROCESS_TIMES = PROCESS_ACTS | PROCESS_PROFILES,
	PROCESS_PREWAITS = 4,
	PROCESS_LOOPS = 8,
	PROCESS_PRESLEEPS = 16
};

/* Lives on a page that the kernel hands to a forked child as zeros: so a child is inert without being asked. */
struct process_guard {
	uint32_t mode; /* PROCESS_ACTS, with PROCESS_PROFILES and PROCESS_LOOPS or without */
};

struct process {
	struct config config;
	struct ladder_policy policy;
	struct forecast *forecasts; /* MPIWAIT_LANES of them; NULL: nothing is forecast, and naps are not paid for */
	uint64_t opened_ns;         /* when accounts were opened */
	struct mpiwait_slot *slot;
	uint32_t hooks;           /* MPIWAIT_HOOK_* that may spend time; none until Init has returned */
	uint32_t locked_hooks;    /* MPIWAIT_HOOK_* that the runtime calls under its lock */
	uint32_t burst;           /* quiet polls that it takes before time may be spent */
	uint64_t pstate_after_ns; /* a wait this long goes on at low frequency; UINT64_MAX: never */
	uint32_t phase;           /* the place of the program's, in the tables of contract/stats.h: phase.h */
	bool silent;              /* the runtime does not say when it has made progress */
	bool unhooked;            /* no hook serves: forecasts are for sleeps before calls alone (presleep.h) */
	bool threaded;            /* a second thread has called MPI */
	bool starting;            /* inside the first Init */
};

extern struct process_guard *process_guard;
extern struct process process;

static inline uint32_t process_mode(void)
{
	return process_guard->mode;
}

/* Whether waits that hooks see are forecast, and their naps paid for. */
static inline bool process_has_account(void)
{
	return process.forecasts != NULL && !process.unhooked;
}

/* Gives the guard a page of its own. Returns whether a forked child will find zeros there. */
bool process_guard_make(void);

/* Sets a MPIWAIT_FLAG_* in the slot, or a MPIWAIT_HOOK_*: that hook has served. */
void process_flag(uint32_t flag);
void process_hook(uint32_t hook);

/* From now on waits do not rely on being woken. */
void process_event_end(void);
