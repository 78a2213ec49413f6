/*
 * Predictor and account of a wait. Their invariant stands in foresight.h.
 */
#include "preload/wait/foresight.h"

#define WORTH_NS     UINT64_C(100000) /* a wait that might have been slept through */
#define LADDER_SHARE 8

void foresight_open(struct foresight *foresight, uint64_t site, bool forecasts, uint64_t now_ns)
{
	foresight->landing_ns = 0;
	foresight->began_ns = now_ns;
	foresight->slept_ns = foresight->excess_ns = 0;
	foresight->looked = foresight->own = false;
	if (!foresight->predictor)
		return;
	predictor_open(foresight->predictor, site, now_ns);
	if (!forecasts)
		predictor_drop(foresight->predictor);
}

/* Ends the open nap as one in which something arrived. Returns whether it was a forecast's. */
static bool nap_was_late(struct foresight *foresight, struct account *account)
{
	uint64_t charge_ns;

	if (!foresight->nap.open)
		return false;
	charge_ns = account_end(account, &foresight->nap, true);
	foresight->lane->late += !foresight->rests;
	foresight->lane->late_ns += charge_ns;
	foresight->excess_ns += charge_ns > foresight->nap.aside_ns ? charge_ns - foresight->nap.aside_ns : 0;
	if (foresight->advised)
		foresight->slept_ns -= charge_ns < foresight->slept_ns ? charge_ns : foresight->slept_ns;
	return foresight->advised;
}

/* By how much the naps of this call may have made it later, beyond what is a debt already. */
static uint64_t doubt(const struct foresight *foresight, uint64_t ended_ns)
{
	uint64_t latest_ns = predictor_latest(foresight->predictor), more_ns;

	if (foresight->nap.shared)
		return 0;
	more_ns = ended_ns > latest_ns ? ended_ns - latest_ns : 0;
	more_ns -= foresight->excess_ns < more_ns ? foresight->excess_ns : more_ns;
	return more_ns < foresight->slept_ns ? more_ns : foresight->slept_ns;
}

/* By more than naps of the ladder explain, none of which lasts for more than a sixteenth of the wait. */
static bool outlasted(const struct foresight *foresight, uint64_t ended_ns)
{
	uint64_t latest_ns = predictor_latest(foresight->predictor);

	return ended_ns > latest_ns && ended_ns - latest_ns > (ended_ns - foresight->began_ns) / LADDER_SHARE &&
	       ended_ns - foresight->began_ns >= WORTH_NS;
}

static enum predictor_end look_end(struct foresight *foresight, struct account *account, uint64_t ended_ns)
{
	uint64_t forgiven_ns;
	enum predictor_end end =
	        predictor_looked(foresight->predictor, ended_ns, ended_ns < foresight->job_ns, &forgiven_ns);

	account_forgive(account, forgiven_ns);
	foresight->lane->late_ns -= forgiven_ns;
	return end;
}

/* What the end of a phase is worth that was noticed at ended_ns, or, if it is late, came after empty_ns. */
static enum predictor_end end_of(struct foresight *foresight, struct account *account, uint64_t ended_ns,
                                 uint64_t empty_ns, bool late)
{
	uint64_t doubt_ns;

	if (!foresight->silent)
		return late ? PREDICTOR_LATE : PREDICTOR_EXACT;
	if (foresight_looks(foresight, ended_ns))
		return look_end(foresight, account, ended_ns);
	doubt_ns = doubt(foresight, ended_ns);
	if (doubt_ns > 0) {
		account_doubt(account, doubt_ns, ended_ns);
		predictor_delay(foresight->predictor, doubt_ns);
		foresight->lane->late_ns += doubt_ns;
		foresight->slept_ns -= doubt_ns;
		return PREDICTOR_DELAYED;
	}
	if (!late)
		return outlasted(foresight, ended_ns) ? PREDICTOR_LATER : PREDICTOR_DOUBTED;
	return empty_ns < predictor_latest(foresight->predictor) ? PREDICTOR_LATE : PREDICTOR_DELAYED;
}

/* A phase has ended; empty_ns: the last empty poll before that. */
static void phase_count(struct foresight *foresight, uint64_t empty_ns, bool late)
{
	const struct predictor *predictor = foresight->predictor;
	struct mpiwait_lane *lane = foresight->lane;

	if (!predictor->foreseen) {
		bool worth = empty_ns - foresight->began_ns >= WORTH_NS;

		lane->unforeseen += worth && !foresight->looked;
		foresight->fresh += worth && foresight->own;
		return;
	}
	lane->foreseen++;
	foresight->fresh -= foresight->fresh > 0;
	if (late || predictor->landed_ns == 0)
		return;
	lane->early++;
	lane->early_ns += empty_ns > predictor->landed_ns ? empty_ns - predictor->landed_ns : 0;
}

static enum predictor_end phase_end(struct foresight *foresight, struct account *account, uint64_t *empty_ns)
{
	uint64_t ended_ns = *empty_ns;
	bool late;

	if (foresight->nap.open) {
		*empty_ns = foresight->nap.began_ns;
		foresight->looked = false;
	}
	late = nap_was_late(foresight, account);
	foresight->landing_ns = 0;
	if (!foresight->predictor)
		return PREDICTOR_EXACT;
	phase_count(foresight, *empty_ns, late);
	return end_of(foresight, account, ended_ns, *empty_ns, late);
}

void foresight_progress(struct foresight *foresight, struct account *account, uint64_t last_ns, uint64_t now_ns)
{
	enum predictor_end end = phase_end(foresight, account, &last_ns);

	foresight->began_ns = now_ns;
	if (foresight->predictor)
		predictor_progress(foresight->predictor, last_ns, end);
}

enum predictor_advice foresight_ask(struct foresight *foresight, struct account *account, uint64_t now_ns,
                                    uint64_t most_ns, struct predictor_nap *ret_nap)
{
	enum predictor_advice advice;
	uint64_t room_ns;

	foresight->landing_ns = 0;
	if (!foresight->predictor)
		return PREDICTOR_UNKNOWN;
	room_ns = account_room(account, ACCOUNT_WHOLE, now_ns);
	foresight->predictor->rich = account_is_rich(account, room_ns);
	advice = predictor_advise(foresight->predictor, now_ns, room_ns, most_ns, ret_nap);
	if (advice == PREDICTOR_NAP)
		foresight->landing_ns = now_ns + ret_nap->left_ns;
	return advice;
}

bool foresight_begin(struct foresight *foresight, struct account *account, bool advised, uint64_t now_ns,
                     uint64_t cost_ns)
{
	enum account_purse purse = advised ? ACCOUNT_WHOLE : ACCOUNT_LADDER;

	if (!account_begin(account, &foresight->nap, purse, now_ns, cost_ns))
		return false;
	foresight->advised = advised;
	foresight->rests = false;
	foresight->lane->forecasts += advised;
	return true;
}

bool foresight_rest(struct foresight *foresight, struct account *account, uint64_t now_ns, uint64_t cost_ns)
{
	foresight->rests = foresight_begin(foresight, account, false, now_ns, cost_ns);
	return foresight->rests;
}

void foresight_woke(struct foresight *foresight, uint64_t ask_ns, uint64_t now_ns)
{
	if (!foresight->nap.open)
		return;
	account_woke(&foresight->nap, now_ns);
	if (foresight->advised)
		foresight->slept_ns += now_ns - foresight->nap.began_ns;
	if (!foresight->predictor)
		return;
	foresight->predictor->shared = foresight->nap.shared;
	predictor_woke(foresight->predictor, ask_ns, now_ns - foresight->nap.began_ns);
}

void foresight_woken(struct foresight *foresight, uint64_t ask_ns, uint64_t now_ns, bool by_message)
{
	struct account_nap *nap = &foresight->nap;
	uint64_t asked_ns = nap->began_ns + ask_ns, came_ns = now_ns - nap->aside_ns;

	if (!by_message)
		foresight_woke(foresight, ask_ns, now_ns);
	else
		foresight->advised = false;
	account_woke(nap, now_ns);
	if (came_ns > asked_ns)
		came_ns = asked_ns;
	if (now_ns > nap->aside_ns && came_ns > nap->began_ns)
		nap->began_ns = came_ns;
}

void foresight_drop(struct foresight *foresight)
{
	foresight->landing_ns = 0;
	if (foresight->predictor)
		predictor_drop(foresight->predictor);
}

void foresight_close(struct foresight *foresight, struct account *account, uint64_t last_ns)
{
	enum predictor_end end = phase_end(foresight, account, &last_ns);

	if (foresight->predictor)
		predictor_close(foresight->predictor, last_ns, end);
}
