/*
 * The rungs: the ways to spend the time until the next look, shallow to deep in the order of enum mpiwait_rung.
 *
 * Invariant: a rung is one row of preload/contract/rungs.def and one file; nothing else knows them apart. A rung never
 * fails: what cannot be done now returns early, and the wait polls again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/contract/stats.h"
#include "preload/process/config.h"
#include "preload/rung/event.h"
#include "preload/rung/slack.h"

/* Per thread: what a rung changed in the thread, to be put back when the wait ends. */
struct rung_thread {
	struct slack slack;
	enum event_end event; /* how the latest sleep ended, until that is judged */
	bool event_missed;    /* it ran into its timeout, and there was something to find */
	struct mpiwait_lane *lane;
	struct {
		bool asked;       /* to be lowered, and not yet to be restored */
		bool sure;        /* it is known to be low */
		uint32_t cpu;     /* of the core that was lowered */
		uint32_t serial;  /* of the latest request */
		uint32_t changes; /* of that core's frequency: counted so far */
		bool counts;      /* changes is of that core */
		uint64_t asked_ns;
		uint64_t counted_ns; /* time at low frequency is counted up to here */
	} pstate;
};

struct rung {
	bool (*probe)(const struct config *config); /* can it be done here? Called once, at start, when the clock is
	                                               set. NULL: not in this release */
	uint64_t exit_ns;                           /* exit latency to begin with, until measured */
	bool timed;                /* takes a duration: its exit latency is measured, and it can be late */
	bool instant;              /* so short that its own time is not looked at */
	bool holds_core;           /* nobody else gets the core meanwhile: not for shared ones */
	bool woken;                /* the message ends it */
	uint64_t (*most_ns)(void); /* the longest duration that it takes, 0: any. NULL: any. After the probe */
	void (*doze)(uint64_t ask_ns, struct rung_thread *thread);
	void (*leave)(struct rung_thread *thread); /* NULL: nothing to put back */
};

/* Indexed by enum mpiwait_rung. */
extern const struct rung rung_table[MPIWAIT_RUNG_COUNT];

/* Of the configured rungs the ones that this release has and this node can do, bit per enum mpiwait_rung. */
uint32_t rung_available(const struct config *config);

/* Puts back what the rungs changed in this thread. */
void rung_leave(struct rung_thread *thread);

/* One file each. */
void rung_pause_doze(uint64_t ask_ns, struct rung_thread *thread);
void rung_yield_doze(uint64_t ask_ns, struct rung_thread *thread);
bool rung_waitpkg_probe(const struct config *config);
uint64_t rung_waitpkg_most(void);
void rung_waitpkg_doze(uint64_t ask_ns, struct rung_thread *thread);
bool rung_mwaitx_probe(const struct config *config);
void rung_mwaitx_doze(uint64_t ask_ns, struct rung_thread *thread);
void rung_nap_doze(uint64_t ask_ns, struct rung_thread *thread);
void rung_nap_leave(struct rung_thread *thread);
bool rung_event_probe(const struct config *config);
void rung_event_doze(uint64_t ask_ns, struct rung_thread *thread);

bool rung_pstate_probe(const struct config *config);
void rung_pstate_leave(struct rung_thread *thread);

/*
 * pstate is no doze but a state: the wait goes on with the other rungs, at low frequency. Called at an idle poll of a
 * wait at now_ns: lowers, keeps or restores the core's frequency. Never waits for anybody.
 */
void rung_pstate_hold(struct rung_thread *thread, uint64_t now_ns, bool low);

static inline bool rung_pstate_is_low(const struct rung_thread *thread)
{
	return thread->pstate.asked;
}
