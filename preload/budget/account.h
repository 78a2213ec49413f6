/*
 * The account of a rank: how late it may be in all because it slept. Pure: times in, decisions out.
 *
 * Its law: at each time T after the opening,
 *
 *     sum of all delays  <=  (start + slowdown * T) / parts + debt
 *     debt               <=  kept / parts + what the kernel woke the latest nap of each thread too late, or what the
 *                            latest call of each is doubted for
 *
 * whatever the waits are like, and whatever was forecast. The debt is what the kernel woke too late and is not repaid
 * yet. The proof:
 *
 *     1. A poller would have found at its next poll what arrives. So only what arrives during a nap is found later than
 *        that, and no later than the wake-up: its delay is at most the time from the last empty poll to the wake-up.
 *        That time is charged, for each nap after which something was found. So the sum of the delays is at most the
 *        sum of the charges.
 *     2. A nap begins only after account_begin has set aside what it is to cost (the time asked for, and the exit
 *        latency), and only if everything charged, repaid and set aside, this included, is within (start + slowdown *
 *        T) / parts. It grows with T, so this stays true until the nap ends.
 *     3. The charge is more than what was set aside only if the kernel woke the thread later than its exit latency
 *        says. This excess is the kernel's: it is added to the debt. Half of what the account earns from then on repays
 *        it, until there is none. What is repaid counts as spent, and is never more than what was earned meanwhile. So
 *        all charges are within what is allowed and the debt together.
 *     4. No nap begins while the debt is more than kept / parts. So beyond that only the latest excess of each thread
 *        can stand.
 *
 * So one sleep that the kernel ends 4 ms late does not end all others for 0.4 s, but makes them fewer for 0.8 s.
 *
 * A rank of a large job has only a part of what its user allows: the delays of all levels of a tree add up. Up to 16
 * ranks a part is the whole; each doubling beyond that makes three parts more. `tests/bench/run job` says by how
 * much jobs of up to 10000 ranks are longer then; tests/bench/RESULTS.md has its table.
 *
 * Something was found: the runtime said so, or the call ended. Where the runtime does not say so, the end of the call
 * is all that is known, and what it found before that is in no charge: foresight.h has what stands for it,
 * account_doubt, and when that was wrong, account_forgive.
 *
 * On a core that others want, a rank that polls, or yields, queues for it just as one that slept. So what the kernel
 * wakes too late there is the others' time: it is in no charge, and is no debt.
 *
 * One sleep has another charge: that which a message is proven to end (event). It is charged from the moment at which
 * what came may have begun to wake it, or from its timeout where nothing did. So what a wake-up that was lost made late
 * is undercharged: by the time from the message to the timeout, for each of those that it takes until event_trust
 * (event.h) ends the use of that rung.
 *
 * Two purses: the ladder, which naps where nothing is forecast, has half of everything; forecasts have what it leaves.
 * So a rank whose waits repeat can learn that although its other waits do not. What is not spent is kept up to a
 * limit: a rank that never waited for an hour is not late by 36 s after that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ACCOUNT_START_NS UINT64_C(2000000)
#define ACCOUNT_KEPT_NS  UINT64_C(10000000)

#define ACCOUNT_LEVELS_FREE 4u
#define ACCOUNT_LEVEL_PARTS 3u

enum account_purse { ACCOUNT_WHOLE, ACCOUNT_LADDER, ACCOUNT_PURSES };

/* Of the process: its threads share it. */
struct account {
	uint64_t opened_ns;
	uint64_t slowdown_ppm; /* 0: there is no account */
	uint64_t parts;
	uint64_t spent_ns[ACCOUNT_PURSES]; /* atomic: charged, repaid, set aside, or not kept */
	uint64_t debt_ns;                  /* atomic: what the kernel woke too late, and is not repaid */
	uint64_t repaid_ns;                /* atomic: the time until which the debt has had its half */
};

/* The latest nap of one thread, from its beginning until it is known whether it ended too late. */
struct account_nap {
	bool open;
	enum account_purse purse;
	uint64_t aside_ns;
	uint64_t began_ns; /* the last empty poll before it */
	uint64_t woke_ns;
	bool shared; /* others want the core, now or in the nap */
};

/* Of a tree of so many ranks. */
static inline unsigned account_levels(uint32_t ranks)
{
	return ranks > 1 ? 32 - (unsigned)__builtin_clz(ranks - 1) : 0;
}

/* Of which a rank of a job of so many has one. */
static inline uint64_t account_parts(uint32_t ranks)
{
	unsigned levels = account_levels(ranks);

	return levels > ACCOUNT_LEVELS_FREE ? 1 + ACCOUNT_LEVEL_PARTS * (levels - ACCOUNT_LEVELS_FREE) : 1;
}

/* Opens it for one of so many ranks: from now on, a part of that many millionths of the time. */
void account_open(struct account *account, uint64_t now_ns, uint64_t slowdown_ppm, uint32_t ranks);

static inline bool account_is_open(const struct account *account)
{
	return account->slowdown_ppm != 0;
}

/* How late the rank may have been in all by now: (start + slowdown * T) / parts. */
uint64_t account_allowed(const struct account *account, uint64_t now_ns);

/* What a nap may cost now that is begun for that purse. 0: nothing, or the debt is too large. */
uint64_t account_room(struct account *account, enum account_purse purse, uint64_t now_ns);

/* Whether so much room is half of what is kept, or more: then one that is lost leaves enough for the others. */
static inline bool account_is_rich(const struct account *account, uint64_t room_ns)
{
	return room_ns >= ACCOUNT_KEPT_NS / account->parts / 2;
}

/* Begins a nap that may cost so much: true, with that set aside, or false, and it may not begin. */
bool account_begin(struct account *account, struct account_nap *nap, enum account_purse purse, uint64_t now_ns,
                   uint64_t cost_ns);

static inline void account_woke(struct account_nap *nap, uint64_t now_ns)
{
	nap->woke_ns = now_ns;
}

/* Ends an open nap: whether something may have arrived in it. Returns what it is charged. */
uint64_t account_end(struct account *account, struct account_nap *nap, bool arrived);

/* The rank was later by that, because of naps that were not charged for it: a debt like what the kernel woke too late.
 */
void account_doubt(struct account *account, uint64_t late_ns, uint64_t now_ns);

/* It was not because of them: what is left of that debt goes. */
void account_forgive(struct account *account, uint64_t late_ns);
