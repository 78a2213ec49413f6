/*
 * What a wait asks of the predictor and of the account, and what it tells them: the order of their calls, and the
 * counts of the record. The clock, the polls and the sleeping are wait.c's.
 *
 * Invariant: a nap that is open is ended before the next one begins: as one in which nothing arrived after as many
 * quiet polls as the runtime needs to notice a message, and as one in which something did at a sign of progress and at
 * the end of the call.
 *
 * A runtime may be silent: it does not say that it made progress. Then a call may have work to do in between (to
 * pass a message on, to answer a sender), for which others wait, and of which nothing shows but that the call ends
 * later. There:
 *
 *     1. The job looks: for 8 ms of each 0.5 s in its first 4 s, and of each 2 s after that, by the clock that all
 *        nodes share, no rank rests in a wait. Only the ends of waits that began and ended in such a look are kept. So
 *        no naps are in what is learned, neither the rank's own nor those of the ranks that it waits for. Besides, a
 *        rank looks by itself at each of the first waits of a kind, which are new to the other ranks too, and at the
 *        one after an end that came too early or too late for what is kept: for 17 ms, or a quarter longer than the
 *        latest that was not kept, 134 ms at most; but at no more than 32 waits for which nothing is forecast after
 *        that. Of waits of more than 2 ms it looks at the end only (rule 11 of predictor.h).
 *     2. A nap begins only after FORESIGHT_VAIN idle calls in a row in the rhythm of polls that find nothing. So
 *        many are needed after a nap, too, until nothing is taken to have arrived in it. What ends the call sooner
 *        is charged.
 *     3. A call that was slept in and ended later than the latest that was looked at, by more than these vary, is
 *        taken to have ended later because of that: its margin grows, and the difference, or as much of it as was
 *        slept and is no debt yet, is a debt of the account. Unless the next one, in which nobody here slept, is later
 *        too: the waits have become longer, and the debt goes.
 *     4. One in which only the ladder napped, and which was later by more than that explains, was longer. The next one
 *        is looked at, and if it is later too, what was kept is forgotten.
 *
 * In jobs of 17 to 2048 ranks a rank looks by itself likewise whatever the runtime: there the ladder's naps in the
 * first waits of a kind, and in those after a late end, cost the job more than polling costs the rank. In larger ones
 * forecasts that begin sooner cost as much (tests/bench/programs/job.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/budget/account.h"
#include "preload/budget/predictor.h"
#include "preload/stats.h"

#define FORESIGHT_RANKS_MOST 16384

#define FORESIGHT_VAIN          16u
#define FORESIGHT_LOOK_NS       (UINT64_C(1) << 23)
#define FORESIGHT_LOOK_EVERY_NS (UINT64_C(1) << 29) /* in the first FORESIGHT_YOUNG_NS of a process */
#define FORESIGHT_LOOK_OLD_NS   (UINT64_C(1) << 31) /* after that */
#define FORESIGHT_YOUNG_NS      (UINT64_C(1) << 32)
#define FORESIGHT_OWN_LEAST_NS  (UINT64_C(1) << 24)
#define FORESIGHT_OWN_MOST_NS   (UINT64_C(1) << 27)
#define FORESIGHT_NEW_MOST      32u
#define FORESIGHT_ITSELF_MOST   2048

/* Of one thread; all zero at first. */
struct foresight {
	struct predictor *predictor; /* NULL: nothing is forecast */
	struct mpiwait_lane *lane;
	struct account_nap nap;
	bool advised;        /* the latest nap was a forecast's */
	bool rests;          /* it was no nap, but a rest of the core between polls */
	uint64_t landing_ns; /* as forecast last; 0: nothing was */
	uint64_t began_ns;   /* of the phase, for the counts */
	bool silent;         /* of a silent runtime */
	uint64_t look_ns;    /* the job looks until then, or the rank */
	uint64_t from_ns;    /* the rank does not look before, and may nap */
	uint64_t job_ns;     /* the job does */
	bool looked;         /* the wait is looked at between from_ns and look_ns, and did not end in a nap */
	bool own;            /* the rank looks, not the job alone */
	uint64_t slept_ns;   /* in this call, by forecast, and not charged */
	uint64_t excess_ns;  /* in this call, that the kernel ended its naps too late: a debt already */
	uint32_t fresh;      /* the rank's own looks at waits that were worth one, less the waits that were forecast */
};

/*
 * For how long the job looks still, at that time of the nodes' clock. 0: it does not. age_ns: of the process; those of
 * a job are about as old.
 */
static inline uint64_t foresight_look_left(uint64_t real_ns, uint64_t age_ns)
{
	uint64_t every_ns = age_ns < FORESIGHT_YOUNG_NS ? FORESIGHT_LOOK_EVERY_NS : FORESIGHT_LOOK_OLD_NS;
	uint64_t into_ns = real_ns % every_ns;

	return into_ns < FORESIGHT_LOOK_NS ? FORESIGHT_LOOK_NS - into_ns : 0;
}

/* For how long the rank looks by itself at the open wait. */
static inline uint64_t foresight_look_own(const struct predictor *predictor)
{
	uint64_t lasted_ns = predictor_lasted(predictor), look_ns = lasted_ns + lasted_ns / 4;

	if (look_ns < FORESIGHT_OWN_LEAST_NS)
		return FORESIGHT_OWN_LEAST_NS;
	return look_ns < FORESIGHT_OWN_MOST_NS ? look_ns : FORESIGHT_OWN_MOST_NS;
}

/* Whether a rank of so many looks by itself although the runtime says when it has made progress. */
static inline bool foresight_looks_itself(int32_t ranks)
{
	return ranks > (int32_t)PREDICTOR_SMALL && ranks <= FORESIGHT_ITSELF_MOST;
}

/* A wait begins at that site; forecasts: it is one that may be forecast. */
void foresight_open(struct foresight *foresight, uint64_t site, bool forecasts, uint64_t now_ns);

/* Of a silent runtime: the job looks until then; now_ns: it does not. In large jobs of any. After foresight_open. */
static inline void foresight_look(struct foresight *foresight, uint64_t now_ns, uint64_t until_ns)
{
	foresight->job_ns = until_ns;
	foresight->from_ns = now_ns;
	if (foresight->predictor && foresight->fresh < FORESIGHT_NEW_MOST &&
	    predictor_wants_look(foresight->predictor)) {
		foresight->own = true;
		if (until_ns <= now_ns)
			foresight->from_ns = now_ns + predictor_unlooked(foresight->predictor);
		until_ns = now_ns + foresight_look_own(foresight->predictor);
	}
	foresight->look_ns = until_ns;
	foresight->looked = now_ns < until_ns;
}

/* Whether nothing that takes a time may be done now. */
static inline bool foresight_looks(const struct foresight *foresight, uint64_t now_ns)
{
	return foresight->looked && now_ns >= foresight->from_ns && now_ns < foresight->look_ns;
}

/* Signs of progress since the last empty poll, before what to do next is asked. */
void foresight_progress(struct foresight *foresight, struct account *account, uint64_t last_ns, uint64_t now_ns);

/* As many quiet polls as it takes: nothing arrived in the latest nap. */
static inline void foresight_quiet(struct foresight *foresight, struct account *account)
{
	if (foresight->nap.open)
		account_end(account, &foresight->nap, false);
}

/* Asks the predictor after an empty poll. *ret_nap is for PREDICTOR_NAP. most_ns: of a nap; 0: any time. */
enum predictor_advice foresight_ask(struct foresight *foresight, struct account *account, uint64_t now_ns,
                                    uint64_t most_ns, struct predictor_nap *ret_nap);

/* Since when the wait is to be taken to last. */
static inline uint64_t foresight_origin(const struct foresight *foresight, uint64_t origin_ns)
{
	uint64_t landed_ns = foresight->predictor ? foresight->predictor->landed_ns : 0;

	return landed_ns > origin_ns ? landed_ns : origin_ns;
}

/* Whether a nap may begin that costs so much. */
bool foresight_begin(struct foresight *foresight, struct account *account, bool advised, uint64_t now_ns,
                     uint64_t cost_ns);

/*
 * Whether the core may rest after the landing, which may cost so much. Where the message comes meanwhile, that is
 * charged, but no nap was late.
 */
bool foresight_rest(struct foresight *foresight, struct account *account, uint64_t now_ns, uint64_t cost_ns);

/*
 * The open nap ended, which a message would have ended before; by_message: it did, and no forecast was too late. What
 * came then came no earlier than what was set aside for the waking, nor than the time that was asked for.
 */
void foresight_woken(struct foresight *foresight, uint64_t ask_ns, uint64_t now_ns, bool by_message);

/* It ended. */
void foresight_woke(struct foresight *foresight, uint64_t ask_ns, uint64_t now_ns);

/* The process was stopped meanwhile, or the clock jumped: what this wait teaches is worth nothing. */
void foresight_drop(struct foresight *foresight);

/* The call has ended; last_ns: the latest idle poll, or the end of the latest nap. */
void foresight_close(struct foresight *foresight, struct account *account, uint64_t last_ns);
