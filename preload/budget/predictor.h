/*
 * The predictor: when will this wait end? Programs repeat themselves: the same call, from the same place, after the
 * same call, waits about as long each time. Pure: keys, times and what the polls found in, advice out; no clock, no
 * I/O, nothing allocated, and as much memory for each thread as the struct has.
 *
 * A wait is known by its key: where it was called from, for what, and the waiting call before it (site, previous), and
 * how many signs of progress there have been in it (its phase), so that the waits inside of a collective are learned
 * one by one. Of each key the latest eight ends are kept, as times since the call began to wait, and as times since the
 * same phase of the same call ended last; what varied less lately is believed.
 *
 * Rules:
 *     1. Of the ends kept only those are still to come of which a quarter more has not passed yet. Three make a
 *        forecast: the earliest, less a margin and the exit latency, is the landing. So a wait that is either short or
 *        long is polled through the short one's time, and slept through the rest. Four ends must be known, or two that
 *        are alike, in jobs of up to 16 ranks.
 *     2. Sleep for half of the way to the landing, poll once, and again; the last part is slept at once. So is the
 *        whole way if the latest 16 ends were alike, none came during a nap, and the account could pay for two such
 *        naps and holds half of what it keeps: a wake-up less, and dearer where it is wrong.
 *     3. After the landing there is no sleep until that end has passed by a quarter; and none but a forecast one while
 *        an end is still to come, for 20 us per rank of the job, 10 ms at most. What the ladder's naps cost there a
 *        large job pays at each of its steps; a small one saves more by them.
 *     4. An end that came during a nap is known only to be after the last empty poll, and before it was noticed. It is
 *        not kept: the earlier time would wake the next eight waits too soon, and the later one make each late end
 *        the cause of the next. That it came teaches the margin.
 *     5. The margin is doubled, or grows by half of what the ends vary if that is more, when the last nap before the
 *        landing was too long; also when one was that was the whole way, if the next end is like those kept: else
 *        the waits are others now. It grows by a quarter when one before the last nap was too long. It is given back by
 *        1/512 at each other end; in larger jobs by one part in as many as there are ranks: with P ranks, one late in P
 *        waits is one late rank in every step. The more levels a tree of the ranks has, the larger is the first margin,
 *        and the longer is the shortest wait that is slept through.
 *     6. After a wait that a nap was too long for, the next one of that key is not forecast, but looked at. Not if it
 *        was only the last nap, and the end before it was on time, in jobs of up to 16 ranks: then a larger margin may
 *        do.
 *     7. What the kernel ended later than 99 in 100, by more than the margin, is its own affair: the margin stays, the
 *        next wait is forecast, and the ends are as much alike as before. A margin for one nap in some hundreds would
 *        be polled in each wait. In larger jobs, in which such a one is a late step for all, it must be later by eight
 *        exit latencies more.
 *     8. Where an end may be later because of the naps before it (foresight.h), it is not kept: a wait must not grow
 *        because it was slept through. It is compared with those that are kept: if it is later than all of them, by
 *        more than they vary, the margin was too small by that. In jobs of up to 16 ranks the margin believes it when
 *        it happens again within 16 ends, and the lesser of both then: once, it may have been something else. In
 *        larger ones the first margin is a quarter of the wait then: what a tree has to pass on comes near its end.
 *     9. Or the waits have become longer. So the next one is looked at, without a nap: if it is later than all that are
 *        kept as well, these are forgotten, and it is the first of those that are known.
 *    10. The earliest of the ends kept is forgotten when eight waits in a row that were not kept have outlasted it by a
 *        quarter, as it would be if they were; the latest when it was a quarter more than each of 16: it may have been
 *        an interruption of the core. Not in jobs of more than 16 ranks: in a tree they last for longer because others
 *        slept.
 *    11. A rank that looks by itself need not look at the whole wait: in seven eighths of the shortest end that is
 *        known it sleeps as if nothing was. Not where the question is that of rule 9, nor with more than 16 ranks.
 *
 * How late the rank is because a forecast was wrong is not limited here, but by the account.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/ends.h"

#define PREDICTOR_SETS    128u
#define PREDICTOR_WAYS    2u
#define PREDICTOR_SMALL   16u
#define PREDICTOR_PHASES  7u              /* after so many signs of progress nothing is forecast in that call */
#define PREDICTOR_CLASSES 5u              /* of naps by length: what a long one wakes from is slower */
#define PREDICTOR_NAP_NS  UINT64_C(20000) /* a shorter nap is not worth it */
#define PREDICTOR_WAY_NS  UINT64_C(60000) /* nor is a first one that is nearer to the landing, with up to 16 ranks */

struct predictor_entry {
	uint64_t key; /* 0: free */
	uint64_t margin_ns;
	uint64_t delay_ns;   /* the latest delay of rule 8 */
	uint64_t doubted_ns; /* of the latest end: the delay that its naps were charged with for that */
	uint32_t stamp;      /* when it was used last, in waits */
	uint8_t delayed;     /* ends for which a delay is remembered still: rule 8 */
	bool late;           /* a nap was too long for the latest end, or that was later than those kept */
	bool overran;        /* it was, but only the last nap: rule 6 */
	bool outslept;       /* it was the whole way: rule 5 */
	bool later;          /* it was later: rule 9 */
	struct ends ends;
};

/* Of one thread; all zero at first. */
struct predictor {
	uint64_t previous; /* site of the waiting call before this one */
	uint32_t ranks;    /* of the job */
	bool silent;       /* the runtime does not say when it has made progress */
	bool shared;       /* others wanted the core in the latest nap: what it queued for that is no exit latency */
	bool rich;         /* the account holds half of what it keeps */
	uint32_t stamp;
	uint32_t phase; /* of the open wait, as all below */
	uint64_t site;
	uint64_t began_ns;
	uint64_t landed_ns; /* since when there has been nothing to sleep for; 0: there is, or nothing is known */
	bool whole;         /* the latest forecast nap was to end at the landing */
	bool once;          /* it was the whole way, and a long one */
	uint64_t excess_ns; /* the kernel ended the latest nap so much later than 99 in 100 */
	uint64_t delay_ns;  /* the naps of this phase made it end so much later: rule 8 */
	bool foreseen;      /* there was a forecast nap in this phase */
	struct predictor_entry *entry;       /* NULL: nothing is known */
	uint64_t exit_ns[PREDICTOR_CLASSES]; /* running 99th percentile of what naps take longer than asked */
	struct predictor_entry table[PREDICTOR_SETS][PREDICTOR_WAYS];
};

enum predictor_advice { PREDICTOR_UNKNOWN, PREDICTOR_NAP, PREDICTOR_LANDED, PREDICTOR_OUTLASTED };

struct predictor_nap {
	uint64_t ask_ns;
	uint64_t exit_ns; /* what it takes longer than that, 99 times in 100 */
	uint64_t left_ns; /* until the landing */
	bool whole;       /* it ends there */
	bool once;        /* though that is far */
};

/* The words that tell one call from another, as one. Never 0. */
uint64_t predictor_site(uint64_t caller, uint64_t row, uint64_t handle, uint64_t peer);

/* A wait begins at that site: its first empty poll was at now_ns. */
void predictor_open(struct predictor *predictor, uint64_t site, uint64_t now_ns);

/*
 * What to do after an empty poll at now_ns. *ret_nap: with PREDICTOR_NAP, a nap that costs at most room_ns and lasts at
 * most most_ns (0: any time). PREDICTOR_LANDED: poll. PREDICTOR_OUTLASTED: no end is to come any more; the wait is to
 * be taken for one that began at landed_ns.
 */
enum predictor_advice predictor_advise(struct predictor *predictor, uint64_t now_ns, uint64_t room_ns, uint64_t most_ns,
                                       struct predictor_nap *ret_nap);

/* A nap that was asked to last ask_ns took actual_ns. */
void predictor_woke(struct predictor *predictor, uint64_t ask_ns, uint64_t actual_ns);

/*
 * What is known of an end: when it was; that a nap which was advised came before it; that naps may have made it later,
 * or did (rule 8); that it was later than all that are kept although nobody here slept (rule 9).
 */
enum predictor_end { PREDICTOR_EXACT, PREDICTOR_LATE, PREDICTOR_DOUBTED, PREDICTOR_DELAYED, PREDICTOR_LATER };

/* There was a sign of progress, or the call ended. empty_ns: the last empty poll before that. */
void predictor_progress(struct predictor *predictor, uint64_t empty_ns, enum predictor_end end);
void predictor_close(struct predictor *predictor, uint64_t empty_ns, enum predictor_end end);

/* Whether enough ends are known of a wait to forecast it. */
bool predictor_knows(const struct predictor *predictor, const struct predictor_entry *entry);

/* Whether too little is known of the open wait, and it has not been looked at in vain yet. */
static inline bool predictor_is_new(const struct predictor *predictor)
{
	const struct predictor_entry *entry = predictor->entry;

	if (predictor->phase >= PREDICTOR_PHASES)
		return false;
	return !entry || (entry->ends.passed < ENDS_KNOWN && !predictor_knows(predictor, entry));
}

/* Whether the open wait is to be looked at where naps would hide how long it is. */
static inline bool predictor_wants_look(const struct predictor *predictor)
{
	return predictor_is_new(predictor) || (predictor->entry && predictor->entry->late);
}

/* How long the latest wait like the open one was whose end was not kept; 0: none is known. */
static inline uint64_t predictor_lasted(const struct predictor *predictor)
{
	return predictor->entry ? (uint64_t)predictor->entry->ends.lasted << ENDS_UNIT_SHIFT : 0;
}

/*
 * How long the open wait may be slept in before it is looked at, and is still looked at when it ends, if it is as long
 * as those before it. 0: not at all.
 */
uint64_t predictor_unlooked(const struct predictor *predictor);

/*
 * What the end of the open wait is, which was looked at without a nap, by the whole job or by this rank alone.
 * *ret_forgiven_ns: what the end before was charged with and was no delay of its naps; else 0.
 */
enum predictor_end predictor_looked(const struct predictor *predictor, uint64_t ended_ns, bool by_job,
                                    uint64_t *ret_forgiven_ns);

/* The naps of the open wait made it end so much later, before it is told to be PREDICTOR_DELAYED. */
static inline void predictor_delay(struct predictor *predictor, uint64_t delay_ns)
{
	predictor->delay_ns = delay_ns;
}

/* When the open wait will have ended, if it is like any that is kept. UINT64_MAX: nothing is known. */
uint64_t predictor_latest(const struct predictor *predictor);

/* Nothing more is forecast in the open wait, nor learned from it. */
void predictor_drop(struct predictor *predictor);
