/*
 * What holds for the whole process: the configuration, the slot, and whether the library acts at all.
 *
 * Invariant: the library acts from the first successful MPI_Init, MPI_Init_thread or MPI_Session_init until
 * MPI_Finalize, in the process that called it and in no child of it. Before, after and elsewhere it only forwards.
 */
#ifndef MPIWAIT_PRELOAD_PROCESS_H
#define MPIWAIT_PRELOAD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/account.h"
#include "preload/calls.h"
#include "preload/config.h"
#include "preload/ladder.h"
#include "preload/predictor.h"

/* PROCESS_PREWAITS is of a single call: see prewait.h. PROCESS_LOOPS: see loop.h. */
enum {
	PROCESS_INERT = 0,
	PROCESS_ACTS = 1,
	PROCESS_PROFILES = 2,
	PROCESS_TIMES = PROCESS_ACTS | PROCESS_PROFILES,
	PROCESS_PREWAITS = 4,
	PROCESS_LOOPS = 8
};

/* Lives on a page that the kernel hands to a forked child as zeros: so a child is inert without being asked. */
struct process_guard {
	uint32_t mode; /* PROCESS_ACTS, with PROCESS_PROFILES and PROCESS_LOOPS or without */
};

struct process {
	struct config config;
	struct ladder_policy policy;
	struct account account;
	struct predictor *predictors; /* MPIWAIT_LANES of them; NULL: nothing is forecast */
	struct mpiwait_slot *slot;
	uint32_t locked_hooks;    /* MPIWAIT_HOOK_* that the runtime calls under its lock */
	uint32_t burst;           /* quiet polls that it takes before time may be spent */
	uint64_t pstate_after_ns; /* a wait this long goes on at low frequency; UINT64_MAX: never */
	bool silent;              /* the runtime does not say when it has made progress */
	bool threaded;            /* a second thread has called MPI */
	bool starting;            /* inside the first Init */
};

extern struct process_guard *process_guard;
extern struct process process;

static inline uint32_t process_mode(void)
{
	return process_guard->mode;
}

/* Whether waits are forecast and naps paid for. */
static inline bool process_has_account(void)
{
	return account_is_open(&process.account);
}

/* Before one of the rows of GROUP_INIT: prepares the environment for the first that starts MPI. */
void process_call_begins(enum call_row row);

/* After one of the rows of GROUP_INIT returned that MPI error code (0: success): starts or ends the library's work. */
void process_call_ended(enum call_row row, int code);

/* Sets a MPIWAIT_FLAG_* in the slot, or a MPIWAIT_HOOK_*: that hook has served. */
void process_flag(uint32_t flag);
void process_hook(uint32_t hook);

/* From now on waits do not rely on being woken. */
void process_event_end(void);

#endif
