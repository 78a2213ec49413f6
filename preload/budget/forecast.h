/*
 * Forecasts: when will this call end? Programs repeat themselves: the same call, from the same place, on the same
 * communicator, with the same peer, after the same call that waited, ends at about the same moment each time. Pure:
 * keys and times in, moments out; nothing is allocated.
 *
 * The table keeps the latest eight ends of each key, by two clocks: as times since the call began to wait, and as times
 * since the end of the same call before. The clock whose ends lie closer together counts. In a job of many ranks that
 * is the second one: a collective ends when the last rank comes, at the same moment for all, however long each has
 * waited.
 *
 * An end is kept if it was seen in a look (contract/looks.h), in which nobody slept; elsewhere only if it is earlier
 * than all that are kept, by more than the margin. So a wait cannot grow because it was slept through. Ends that come
 * before the first look are kept if the wait was long: a job with long steps need not wait for its look.
 *
 * A call that found its message soon is not seen here: its end is not known. So each call brings its number among the
 * calls of its function, and a period counts if as many calls lie between two ends as usual. Where a multiple does, the
 * forecast is by as many of the shortest periods.
 *
 * The landing is the earliest end that is still to come, less the margin. An end that a quarter more has passed of is
 * not to come any more.
 *
 * The thread's own work before the wait, without its waits in other calls, tells when steps become shorter: where it is
 * shorter by more than a quarter, the call is waited for without a nap, and its early end is learned.
 *
 * The margin of a key grows by half when the call ended during a nap, or so soon after that it may have, and shrinks by
 * a small part when it did not: two ranks let one nap in seven be late, 64 and more one in two hundred, or one in a
 * hundred while the account has lost little. It also grows when the account measures a loss. A call that ended late
 * twice in a row is waited for as in a look the next time, so that its end is seen.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/account.h"

#define FORECAST_SETS     128u
#define FORECAST_WAYS     2u
#define FORECAST_ENDS     8u
#define FORECAST_KNOWN    3u
#define FORECAST_UNIT     6                 /* ends are kept in units of 64 ns: up to 274 s */
#define FORECAST_CLASSES  5u                /* of naps by length: the kernel takes longer to end long ones */
#define FORECAST_NAP_NS   UINT64_C(20000)   /* a shorter nap is not worth it */
#define FORECAST_SHORT_NS UINT64_C(100000)  /* a longer nap may end late; a shorter wait tells no call from another */
#define FORECAST_LONG_NS  UINT64_C(2000000) /* a long wait */

/* Ends by one clock. */
struct forecast_ends {
	uint32_t at[FORECAST_ENDS];
	uint8_t count;
	uint8_t next; /* where the next one goes */
};

struct forecast_entry {
	uint64_t key;      /* 0: free */
	uint64_t ended_ns; /* when the call ended last */
	uint64_t look;     /* the look that it ended in; 0: in none */
	uint32_t margin_ns;
	uint32_t stamp;             /* when it was used last, in waits */
	uint32_t number;            /* of the call that ended last */
	uint32_t stride;            /* from one such number to the next, as a rule */
	uint64_t period_ns;         /* the latest */
	uint64_t work_ns;           /* the thread's own time from one end to the next wait, as a rule */
	uint64_t waited_ns;         /* waited_ns of the thread when it ended last */
	uint8_t strayed;            /* ends in a row with more than that */
	uint8_t late;               /* late ends in a row, up to 2 */
	uint32_t own_ns;            /* the shortest time from forwarding to return; 0: the call is not slept before */
	uint8_t looked;             /* ends that were seen in looks, up to FORECAST_KNOWN */
	struct forecast_ends wait;  /* since the call began to wait */
	struct forecast_ends since; /* since it ended before */
	struct account_periods periods;
};

/* The forecasts of one thread; all zero at first, but for ranks. */
struct forecast {
	uint32_t ranks; /* of the job */
	uint32_t stamp;
	uint64_t previous; /* site of the call before this one that waited for long enough to matter */
	uint64_t site;     /* of the open call, as all below */
	uint64_t began_ns;
	uint32_t number;
	bool shorter;                       /* the work before it was, by more than a quarter */
	uint64_t work_ns;                   /* that work; 0: that is not known */
	uint64_t waited_ns;                 /* all waits before */
	struct forecast_entry *entry;       /* NULL: the call is not known */
	uint64_t exit_ns[FORECAST_CLASSES]; /* what naps take longer than asked: the running median ... */
	uint64_t tail_ns[FORECAST_CLASSES]; /* ... and what one nap in 64 takes longer than that */
	struct forecast_entry table[FORECAST_SETS][FORECAST_WAYS];
};

/* The words that tell one call from another, as one. Never 0. */
uint64_t forecast_site(uint64_t caller, uint64_t row, uint64_t handle, uint64_t peer);

/* A call begins to wait at that site, which has that number among the calls of its function. */
void forecast_open(struct forecast *forecast, uint64_t site, uint32_t number, uint64_t now_ns);

/* Whether enough ends are known of the open call. */
bool forecast_knows(const struct forecast *forecast);

/* Returns true if the open call is to be waited for as in a look: two ended late before it, or its work was shorter. */
bool forecast_doubts(const struct forecast *forecast);

/*
 * When the open call ends, at the earliest that is still to come: a time, after now_ns less a quarter of the wait. 0:
 * no known end is to come any more; *ret_past_ns: the latest of them.
 */
uint64_t forecast_end(const struct forecast *forecast, uint64_t now_ns, uint64_t *ret_past_ns);

/* The earliest end that is kept, by the time since the call began to wait; 0: none is. */
uint64_t forecast_least_ns(const struct forecast *forecast);

/* Return how much longer than asked a nap of that length lasts, as a rule, and how long before an end it is to be over.
 */
uint64_t forecast_exit_ns(const struct forecast *forecast, uint64_t ask_ns);
uint64_t forecast_margin_ns(const struct forecast *forecast);

/*
 * Whether the open call, which ended at ended_ns, may have ended during a nap that was over at landed_ns and aimed at
 * an end at aimed_ns. A call that was forwarded after its nap takes some time in any case: it is late if it took no
 * longer than half as long again as the shortest one did. With the margin of the start, one that ended when it was
 * expected is not.
 */
bool forecast_is_late(const struct forecast *forecast, uint64_t landed_ns, uint64_t aimed_ns, uint64_t ended_ns);

/*
 * How long the next nap is to be, if the wait may be slept through for ask_ns: a long nap may end late more often than
 * a short one, since the core has entered a deeper idle state. Where that costs more than another nap, the last
 * part is left to a nap of its own: FORECAST_SHORT_NS, or as long as one long nap in 64 is late, up to half of the way.
 */
uint64_t forecast_part_ns(const struct forecast *forecast, uint64_t ask_ns);

/* A nap that was asked to last ask_ns took actual_ns. */
void forecast_woke(struct forecast *forecast, uint64_t ask_ns, uint64_t actual_ns);

/* How the open call was waited for. */
struct forecast_seen {
	uint64_t ended_ns; /* of its last long silence */
	uint64_t look;     /* the look that it began and ended in; 0: none */
	bool slept;        /* by forecast */
	bool late;         /* it ended during a nap by forecast */
	bool cheap;        /* sleeping costs little: more ends may be late */
};

/* The time since the same call ended before. */
struct forecast_passed {
	uint64_t ns;      /* 0: that is not known */
	uint32_t periods; /* in so many periods */
	bool looked;      /* all of it in the same look */
};

/* The open call has ended. */
struct forecast_passed forecast_close(struct forecast *forecast, struct forecast_seen seen);

/* The call that was closed last took so long from being forwarded to its return: for ranks that sleep before calls. */
void forecast_own(struct forecast *forecast, uint64_t took_ns);

/* The program has changed: of the known ends of the call, the latest FORECAST_KNOWN are its own. */
void forecast_renew(struct forecast_entry *entry);

/* The account measured a loss in the open call. */
void forecast_widen(struct forecast_entry *entry);
