/*
 * Rungs: the ways to spend the time until the next poll, shallow to deep, in the order of enum mpiwait_rung. To doze is
 * to spend time in any rung; to sleep is to doze in one that idles the core or leaves it to others.
 *
 * Invariant: a rung is one row of preload/contract/rungs.def and one file; spank/policy/policy.c says what a host must
 * have for it. A rung never fails: if it cannot act now it returns early, and the wait polls again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/contract/stats.h"
#include "preload/process/config.h"
#include "preload/rung/event.h"
#include "preload/rung/slack.h"

/* State of a thread: what rungs changed in it, and restore when the wait ends. */
struct rung_thread {
	struct slack slack;
	uint64_t delay_ns;    /* run delay at its latest reading */
	uint32_t unread;      /* number of naps since then; 0: it was never read */
	enum event_end event; /* how the latest sleep ended, until that was judged */
	bool event_missed;    /* the latest sleep timed out, and a poll found something */
	struct mpiwait_lane *lane;
	struct {
		bool asked;       /* lowering was asked for, and restoring not yet */
		bool sure;        /* the core is known to be low */
		uint32_t cpu;     /* a CPU of the lowered core */
		uint32_t serial;  /* serial of the latest request */
		uint32_t changes; /* changes of that core's frequency that were counted */
		bool counts;      /* `changes` belongs to that core */
		uint64_t asked_ns;
		uint64_t counted_ns; /* time up to which low frequency is counted */
	} pstate;
};

/* A rung. */
struct rung {
	bool (*probe)(const struct config *config); /* returns true if the rung works here; called once, after the clock
	                                               is set; NULL: not built */
	uint64_t exit_ns;                           /* assumed exit latency, until measured */
	bool timed;                /* takes a duration: its exit latency is measured, and it can be late */
	bool instant;              /* so short that its own time is not measured */
	bool holds_core;           /* keeps the core from others: not for shared cores */
	bool woken;                /* a message ends it */
	uint64_t (*most_ns)(void); /* returns the longest duration, 0: any; called after the probe; NULL: any */
	void (*doze)(uint64_t ask_ns, struct rung_thread *thread);
	void (*leave)(struct rung_thread *thread); /* NULL: nothing to restore */
};

/* The rungs, by enum mpiwait_rung. */
extern const struct rung rung_table[MPIWAIT_RUNG_COUNT];

/* Returns the configured rungs that this release and this node have, bit per enum mpiwait_rung. */
uint32_t rung_available(const struct config *config);

/* Restores what the rungs changed in this thread. */
void rung_leave(struct rung_thread *thread);

/*
 * The rungs' functions, one file per rung: see struct rung. A rung that this build lacks has a probe that returns
 * false, and its doze is never called.
 */
void rung_pause_doze(uint64_t ask_ns, struct rung_thread *thread);
void rung_yield_doze(uint64_t ask_ns, struct rung_thread *thread);
bool rung_waitpkg_probe(const struct config *config);
uint64_t rung_waitpkg_most(void);
void rung_waitpkg_doze(uint64_t ask_ns, struct rung_thread *thread);
bool rung_mwaitx_probe(const struct config *config);
void rung_mwaitx_doze(uint64_t ask_ns, struct rung_thread *thread);
void rung_nap_doze(uint64_t ask_ns, struct rung_thread *thread);
void rung_nap_leave(struct rung_thread *thread);

/*
 * Returns true if others had the core for most of the time by which the latest nap ended late: the nap was over, and
 * the thread ready to run. The kernel's count is read in one nap of 16, and what counts is all such time since it was
 * read last, also in the naps before and in the work and the polls between them. late_ns: what the nap took longer than
 * asked; less than 0.1 ms is never called a hold-up.
 */
bool rung_nap_was_held(struct rung_thread *thread, uint64_t late_ns);
bool rung_event_probe(const struct config *config);
void rung_event_doze(uint64_t ask_ns, struct rung_thread *thread);

bool rung_pstate_probe(const struct config *config);
void rung_pstate_leave(struct rung_thread *thread);

/*
 * Lowers, keeps or restores the core's frequency, at an idle poll of a wait at now_ns. pstate is no doze but a state,
 * in which the wait goes on with the other rungs. Never waits.
 */
void rung_pstate_hold(struct rung_thread *thread, uint64_t now_ns, bool low);

/* Returns true if the thread asked for a low frequency and has not asked to restore it. */
static inline bool rung_pstate_is_low(const struct rung_thread *thread)
{
	return thread->pstate.asked;
}
