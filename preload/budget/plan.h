/*
 * The plan of one wait: forecast, look and account decide what a thread does until its call ends. Pure: other files
 * read the clock, poll and sleep (wait/act.c, and the emulator of whole jobs).
 *
 *     the call waits ...                                            ends
 *     |--polls--|------------- one nap -------------|--polls--------|
 *               began                               landing         earliest end that is known
 *                                                   |<-- margin --->|
 *
 * A nap is asked to end before the landing, by as long as the kernel usually takes to wake the thread. Long naps may be
 * slept in parts.
 *
 * A call may do work between its naps: pass a message on, move data. A runtime may report such work as a sign of
 * progress. A silence lasts from the begin of the wait, or a sign, to the next sign or the end. A nap aims at the end
 * of the call's last silence that was long enough to sleep in, so that what comes after that silence is served. The
 * call of a runtime that reports nothing is one silence.
 *
 * In a look nothing sleeps, with two exceptions. Two ranks climb the ladder in a wait that has outlasted all known ends
 * by 2 ms: its naps move such an end by 0.1 ms, or a 128th. Without that, a look kept up to 65 ms of a wait of 100 ms
 * polled, the first one after waits of 10 ms (measured). And a wait that is known to last for 2 ms or more may be slept
 * in for fifteen sixteenths of the shortest that is known. So a sixteenth of it is polled, as of the time in a young
 * job. The same holds for a call after late ends. A missed end that was not even a 64th as long as the next one does
 * not count as the shortest: a program's first wait may be short by chance, and one such end kept looks of long waits
 * polled. In a job of two ranks 0.5 ms is enough, unless ends were late, but 0.1 ms at least is polled: of 700 waits of
 * 1 ms they kept 12 percent of the CPU time without that, and 10 with it (emulated). In strict looks (contract/looks.h)
 * nothing sleeps at all. No nap lasts into a look.
 *
 * A nap that begins after some known ends were missed may be wrong for this wait: the ends that are left may be of
 * other steps. So in a call that is compared it lasts no longer than what the account counts of one period, or 0.1 ms
 * if that is more. Sixteen ranks with one long step in eight lost 25 ms in 0.86 s without that, and lose 15 with it
 * (emulated).
 *
 * Where all known ends were missed, some rank is late. Among more than two ranks it may have overslept, and many naps
 * of those that wait for it would make others late in turn. So in a call that is compared the ladder begins only after
 * twice the usual period. Without that, 10000 ranks of whose sleeps one in 1000 ends 200 us late took 15 naps each in
 * such a step, and their job became 5.8 percent longer, and 2.6 with it (emulated, 0.26 s).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/account.h"
#include "preload/budget/forecast.h"
#include "preload/contract/looks.h"
#include "preload/contract/stats.h"

/* The plan of one thread. plan_start sets all of it. */
struct plan {
	struct forecast *forecast; /* forecasts of the thread; NULL: nothing is forecast, and nothing measured */
	struct mpiwait_lane *lane;
	struct mpiwait_header *node; /* shared by all ranks of this node */
	struct account account;
	struct looks looks;
	bool forecasts;        /* true if the open call may be forecast */
	bool slept;            /* true if the thread slept by forecast in the open call */
	uint64_t look;         /* number of the look that the open call began in; 0: none */
	uint64_t silent_ns;    /* time of the last sign of progress, or when the call began to wait */
	uint64_t ended_ns;     /* end of the latest long silence; 0: none */
	uint64_t landing_ns;   /* the landing less the usual wake-up, or when the advice was to poll; 0: none */
	uint64_t aimed_ns;     /* end that the latest nap by forecast aimed at */
	uint64_t outlasted_ns; /* latest known end that was missed: the wait counts from here; 0: none missed */
	uint64_t empty_ns;     /* last empty poll before the latest nap; 0: nothing came in that nap */
	uint64_t landed_ns;    /* when the latest nap by forecast ended; 0: none */
	uint64_t woke_ns;      /* when the latest nap ended */
	uint64_t over_ns;      /* how much later than asked the latest nap ended */
	uint64_t told_ns;      /* how much the open call's naps overslept beyond the cut */
	uint64_t overslept_ns; /* the node's overslept_ns when this thread charged it last */
};

enum plan_advice {
	PLAN_LOOK,   /* poll: nobody sleeps now */
	PLAN_LANDED, /* poll: the end is near, or overdue since outlasted_ns */
	PLAN_NAP,    /* sleep for ask_ns */
	PLAN_LADDER, /* climb the ladder: nothing is known, or no known end is to come */
};

/* The advice for one moment of a wait. */
struct plan_step {
	enum plan_advice advice;
	uint64_t ask_ns;  /* length of the nap; PLAN_NAP only */
	uint64_t left_ns; /* time until the landing; PLAN_NAP only */
};

/*
 * Starts the plan of a thread. seed: the same for all ranks of the job. forecast: NULL, or all zero except for its
 * ranks. node: not NULL.
 */
void plan_start(struct plan *plan, struct forecast *forecast, struct mpiwait_lane *lane, struct mpiwait_header *node,
                uint64_t seed, uint64_t slowdown_ppm, uint64_t now_ns);

/*
 * Opens the plan of a call (forecast_call) that begins to wait. number: its number among the calls of its function.
 * now_ns: the first empty poll of the call. real_ns: the node's clock at now_ns.
 */
void plan_open(struct plan *plan, uint64_t call, uint32_t number, bool forecasts, uint64_t now_ns, uint64_t real_ns);

/*
 * Learns that the runtime made progress between last_ns and now_ns. last_ns: the last empty poll, or the end of a nap
 * after that poll.
 */
void plan_progress(struct plan *plan, uint64_t last_ns, uint64_t now_ns);

/* Notes that nothing came in the latest nap: enough empty polls have followed it. */
static inline void plan_quiet(struct plan *plan)
{
	plan->empty_ns = 0;
}

/* Advises after an empty poll. most_ns: longest possible nap; 0: any length. */
struct plan_step plan_ask(struct plan *plan, uint64_t now_ns, uint64_t most_ns);

/* Returns how much a nap of the open call may cost, if a message comes meanwhile; 0: nobody sleeps. */
uint64_t plan_room(const struct plan *plan, uint64_t now_ns);

/* How a nap ended: when the ladder said, when the forecast said, or with the message. */
enum plan_end { PLAN_BY_LADDER, PLAN_BY_FORECAST, PLAN_BY_MESSAGE };

/* A nap that is over. */
struct plan_nap {
	enum plan_end end;
	uint64_t began_ns; /* last empty poll; for a nap that a message ended: when the message came, at the earliest */
	uint64_t ask_ns;
	uint64_t woke_ns;
	bool shared; /* true if others had the core meanwhile: then the kernel is not to blame for a late end */
	bool alike;  /* true if naps by forecast take the same rung: then the nap teaches how late they end */
};

/*
 * Learns that a nap is over: how late it ended, and that something may have come in it. Once something has come, what
 * the thread overslept beyond the cut, or beyond FORECAST_SHORT_NS where nothing is compared, is added to the node's
 * overslept_ns. The threads of the node's ranks charge it when they open their next call. A rank of two takes back what
 * delayed nobody, when that call ends next (plan_close).
 */
void plan_woke(struct plan *plan, struct plan_nap nap);

/* Returns true if the open call, which ended at ended_ns, may have ended during its nap. */
bool plan_is_late(const struct plan *plan, uint64_t ended_ns);

/*
 * Closes the plan of a call that has ended, and learns from it. last_ns: the last empty poll, or the end of a nap after
 * that poll.
 */
void plan_close(struct plan *plan, uint64_t last_ns);

/* Drops the open call, so that nothing is learned from it: the process was stopped, or the clock jumped. */
void plan_drop(struct plan *plan);
