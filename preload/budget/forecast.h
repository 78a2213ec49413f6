/*
 * Forecasts: when will this call end? Programs repeat themselves: the same call, from the same callsite, on the same
 * communicator, with the same peer, after the same call that waited, ends at about the same moment each time. Pure:
 * keys and times go in, moments come out; nothing is allocated.
 *
 * The table keeps the latest eight ends of each key, by two clocks: as times since the call began to wait, and as times
 * since the end of the same call before. The clock whose ends lie closer together counts. In a job of many ranks that
 * is the second one: a collective ends when the last rank comes, at the same moment for all, however long each has
 * waited.
 *
 * A wait counts as "before" from 0.1 ms on, and from a 64th of the wait that counted before it; that part shrinks by an
 * eighth with each wait. The first wait counts in any case. Beside waits of 100 ms a wait of 1 ms is chance, by a
 * partner that was held up: the next long wait would have another key, of which no end is known. 40 waits of 20 ms kept
 * 9 to 13 percent of their CPU time with 0.1 ms alone, and 7 to 9 with this (measured).
 *
 * An end is kept if it was seen in a look (contract/looks.h), in which nobody sleeps. Outside of looks an end is kept
 * only if it is earlier than all that are kept, by more than the margin. So a wait cannot grow because it was slept
 * through. Before the first look of a key, ends of long waits are kept too: a job with long steps need not wait for its
 * look. In a job of two ranks those are kept whenever no forecast reached the end, and so are ends of waits that the
 * thread slept in for their first quarter at most: so a call is watched after its first wait, and again where its first
 * ends were not those of the waits that follow. A program that began with two short messages at the same place kept 106
 * of 700 waits of 1 ms polled, until its next look; with one short message, and a nap until then in each wait, up to
 * 287 (measured). Among more ranks other ranks may sleep then.
 *
 * In a job of two ranks a wait that is longer than all known ends is no nap's work for long. If three waits in a row
 * outlast all ends known before them by a quarter, or if the thread's own work before them was longer than twice the
 * usual, the program has changed: all ends but the latest are forgotten. Waits that end by chance seldom outlast all
 * known ends three times. An end that was slept through while fewer than three are known is forgotten as well.
 *
 * A call that found its message soon is not seen here: its end is not known. So each call brings its number among the
 * calls of its function. A period counts if as many calls lie between its two ends as usual. If a multiple of that lies
 * between them, several periods have passed, and the forecast adds as many of the shortest periods.
 *
 * The landing is the earliest end that is still to come, less the margin. A known end counts as missed when the wait
 * has lasted a quarter longer than that end.
 *
 * The thread's own work before the wait, without its waits in other calls, shows when steps become shorter. If it is
 * shorter by more than a quarter, the thread waits without a nap, and learns the early end. A change of the work by
 * less than 0.1 ms, or than a sixteenth of the wait, does not count: of 30 waits of 100 ms between which two ranks
 * worked for 0.3 or 0.9 ms, some were polled whole, and 13 to 21 percent of the CPU time stayed, with it 7 to 13
 * (measured).
 *
 * The margin of a key grows by half when the call ended during a nap, or so soon after that it may have. It shrinks by
 * a small part when the call did not: two ranks let one nap in seven be late, 64 and more ranks one in 150. The margin
 * also grows when the account measures a loss. After two late ends in a row, three with two ranks, the thread waits as
 * in a look, so that it sees the end: twice, since the first of these waits began late. With two ranks, two in a row
 * are chance: they kept 10.3 percent of the CPU time of 700 waits of 1 ms after two late ends, and 6.9 after three
 * (emulated). A wait that began late because the one before it ended late teaches no end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/account.h"

#define FORECAST_SETS     128u              /* sets of the table; a key's set follows from its hash */
#define FORECAST_WAYS     2u                /* entries of a set */
#define FORECAST_ENDS     8u                /* ends that are kept of a key */
#define FORECAST_KNOWN    ACCOUNT_KNOWN     /* least number of ends for a forecast */
#define FORECAST_UNIT     6                 /* log2 of the unit of kept ends: 64 ns, which reaches to 274 s */
#define FORECAST_CLASSES  5u                /* number of classes of naps by length: the kernel ends long naps later */
#define FORECAST_NAP_NS   UINT64_C(20000)   /* a shorter nap is not worth its cost */
#define FORECAST_SHORT_NS UINT64_C(100000)  /* from this length naps may end late, and a wait may count as previous */
#define FORECAST_LONG_NS  UINT64_C(2000000) /* least length of a long wait */

/* Known ends by one clock. */
struct forecast_ends {
	uint32_t at[FORECAST_ENDS]; /* in units of 2^FORECAST_UNIT ns, the latest first */
	uint8_t count;              /* number of ends in `at` */
};

/* The calls of one key, as far as they are known. */
struct forecast_entry {
	uint64_t key; /* hash of the call (forecast_call) and of the call that waited before it; 0: the entry is free */
	uint64_t ended_ns;          /* when the call ended last */
	uint64_t look;              /* number of the look that the call ended in; 0: none */
	uint32_t margin_ns;         /* how long before the earliest end a nap shall be over */
	uint32_t stamp;             /* number of the wait that used the entry last */
	uint32_t number;            /* number of the latest ended call among the calls of its function */
	uint32_t stride;            /* usual difference of such numbers from one end to the next */
	uint64_t work_ns;           /* usual own work of the thread from one end to the next wait */
	uint64_t waited_ns;         /* the thread's waited_ns when the call ended last */
	int64_t told_ns;            /* how much the thread told in the call that ended last; 0: nothing */
	int64_t more_ns;            /* by how much the latest periods were longer than usual */
	uint64_t least_ns;          /* shortest period that the thread told nothing of; 0: unknown */
	uint8_t strayed;            /* number of ends in a row that were more than a stride apart */
	uint8_t late;               /* late ends in a row, plus one among more than two ranks; up to 3 */
	uint32_t own_ns;            /* shortest time from forwarding to return; 0: no sleep before this call */
	bool looked;                /* true if an end was seen in a look */
	uint8_t outlasted;          /* number of waits in a row that told of a change (above) */
	uint8_t kept;               /* number of those whose ends are kept */
	struct forecast_ends wait;  /* ends as times since the call began to wait */
	struct forecast_ends since; /* ends as times since the end before */
	struct account_periods periods;
};

/* The forecasts of one thread. All zero at first, except for ranks. */
struct forecast {
	uint32_t ranks;     /* number of ranks of the job */
	uint32_t stamp;     /* number of waits so far */
	uint64_t previous;  /* the latest call that waited for before_ns: its forecast_call */
	uint64_t before_ns; /* least length of a wait that counts as previous (above) */
	uint64_t call;      /* the open call, by forecast_call */
	uint64_t key;       /* key of the open call: hash of call and previous */
	uint64_t began_ns;  /* when the open call began to wait */
	uint64_t origin_ns; /* origin of the second clock; 0: it tells no more than the first */
	uint32_t number;    /* number of the open call among the calls of its function */
	bool late;          /* true if the wait before the open call ended late, so that this one may be short */
	bool shorter;       /* true if the work before the open call was much shorter than usual (above) */
	uint64_t work_ns;   /* own work before the open call; 0: unknown */
	uint64_t waited_ns; /* length of all waits before the open call */
	struct forecast_entry *entry;       /* entry of the open call; NULL: the call is not known */
	uint64_t exit_ns[FORECAST_CLASSES]; /* by class: running median of how much longer than asked a nap lasts */
	uint64_t tail_ns[FORECAST_CLASSES]; /* by class: what one nap in 64 exceeds that median by */
	struct forecast_entry table[FORECAST_SETS][FORECAST_WAYS];
};

/* Returns a hash that tells one call from another: callsite, function, communicator or other handle, peer. Never 0. */
uint64_t forecast_call(uint64_t caller, uint64_t row, uint64_t handle, uint64_t peer);

/* Opens a call (forecast_call) that begins to wait. number: its number among the calls of its function. */
void forecast_open(struct forecast *forecast, uint64_t call, uint32_t number, uint64_t now_ns);

/* Returns true if enough ends of the open call are known. */
static inline bool forecast_knows(const struct forecast *forecast)
{
	return forecast->entry && forecast->entry->wait.count >= FORECAST_KNOWN;
}

/*
 * Returns true if the thread must wait for the open call as in a look: too many ended late before it, or its work was
 * shorter.
 */
static inline bool forecast_doubts(const struct forecast *forecast)
{
	return forecast->entry && (forecast->entry->late >= 3 || forecast->shorter);
}

/*
 * Returns the earliest time, still to come, at which the open call may end. That time lies after now_ns less a quarter
 * of the wait until then. Returns 0 if fewer than FORECAST_KNOWN of the known ends are still to come. Writes the latest
 * of the missed ends to *ret_past_ns: the begin of the wait if that end lay before it, 0 if none was missed.
 */
uint64_t forecast_end(const struct forecast *forecast, uint64_t now_ns, uint64_t *ret_past_ns);

/* Returns the earliest kept end as a time since the call began to wait, 0 if no end is kept. */
uint64_t forecast_least_ns(const struct forecast *forecast);

/* Returns how much longer than asked a nap of that length usually lasts. */
uint64_t forecast_exit_ns(const struct forecast *forecast, uint64_t ask_ns);

/*
 * Returns true if the open call, which ended at ended_ns, may have ended during a nap. The nap was over at landed_ns
 * and aimed at an end at aimed_ns. A call that was forwarded after its nap takes some time in any case: it counts as
 * late if it took at most half as long again as the shortest one did. While the margin has not shrunk, a call that
 * ended when it was expected is not late.
 */
bool forecast_is_late(const struct forecast *forecast, uint64_t landed_ns, uint64_t aimed_ns, uint64_t ended_ns);

/*
 * Returns how long the next nap shall be if the wait may be slept through for ask_ns. Of a call that is not compared a
 * late end is charged the whole nap: its naps are halves of what is left, until one was in time. Halves until the call
 * was compared took four naps for each wait of 1 ms: 12 to 14 percent of the CPU time stayed with it, and 8 to 13
 * without (measured, with sleeps that cost 30 us of it each). A long nap ends late more often than a short one, since
 * the core enters a deeper idle state. Where that costs more than another nap, the last part is left to a nap of its
 * own. That part is FORECAST_SHORT_NS, or what one long nap in 64 is late by, up to half of ask_ns.
 */
uint64_t forecast_part_ns(const struct forecast *forecast, uint64_t ask_ns);

/* Learns that a nap that was asked to last ask_ns took actual_ns. */
void forecast_woke(struct forecast *forecast, uint64_t ask_ns, uint64_t actual_ns);

/* How the thread waited for the open call. */
struct forecast_seen {
	uint64_t ended_ns; /* end of the call's last long silence */
	uint64_t look;     /* number of the look that the call began and ended in; 0: none */
	bool slept;        /* true if the thread slept by forecast */
	bool awake;        /* true if the thread slept in the first quarter of the wait at most */
	bool late;         /* true if the call ended during a nap by forecast */
};

/* The time since the same call ended before. */
struct forecast_passed {
	uint64_t ns;      /* time since that end; 0: unknown */
	uint32_t periods; /* number of periods in that time */
	bool looked;      /* true if all of that time lies in one look */
	bool changed;     /* true if the program has changed: the known ends are forgotten */
};

/* Closes the open call and learns from its end. Returns the time since the same call ended before. */
struct forecast_passed forecast_close(struct forecast *forecast, struct forecast_seen seen);

/*
 * Learns that the latest closed call took took_ns from being forwarded to its return. For ranks that sleep before
 * calls.
 */
void forecast_own(struct forecast *forecast, uint64_t took_ns);

/* Widens the margin by half: the account measured a loss, or the call ended late. */
void forecast_widen(struct forecast_entry *entry);
