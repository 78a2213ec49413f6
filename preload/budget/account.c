/*
 * The account. Its law and the proof stand in account.h.
 */
#include "preload/budget/account.h"

#define PPM UINT64_C(1000000)

void account_open(struct account *account, uint64_t now_ns, uint64_t slowdown_ppm, uint32_t ranks)
{
	*account = (struct account){.opened_ns = now_ns, .slowdown_ppm = slowdown_ppm, .parts = account_parts(ranks)};
}

/* Of all parts. */
static uint64_t earned(const struct account *account, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns > since_ns ? now_ns - since_ns : 0;

	return elapsed_ns / PPM * account->slowdown_ppm + elapsed_ns % PPM * account->slowdown_ppm / PPM;
}

uint64_t account_allowed(const struct account *account, uint64_t now_ns)
{
	return (ACCOUNT_START_NS + earned(account, account->opened_ns, now_ns)) / account->parts;
}

static uint64_t kept(const struct account *account)
{
	return ACCOUNT_KEPT_NS / account->parts;
}

/* Each purse has half of the one before it, of the start, of the income and of what is kept. */
static uint64_t purse_room(struct account *account, unsigned purse, uint64_t now_ns)
{
	uint64_t allowed_ns = account_allowed(account, now_ns) >> purse, kept_ns = kept(account) >> purse;
	uint64_t spent_ns = __atomic_load_n(&account->spent_ns[purse], __ATOMIC_RELAXED), room_ns;

	if (spent_ns >= allowed_ns)
		return 0;
	room_ns = allowed_ns - spent_ns;
	if (room_ns <= kept_ns)
		return room_ns;
	__atomic_fetch_add(&account->spent_ns[purse], room_ns - kept_ns, __ATOMIC_RELAXED);
	return kept_ns;
}

static void debt_add(struct account *account, uint64_t excess_ns, uint64_t now_ns)
{
	if (__atomic_load_n(&account->debt_ns, __ATOMIC_RELAXED) == 0)
		__atomic_store_n(&account->repaid_ns, now_ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&account->debt_ns, excess_ns, __ATOMIC_RELEASE);
}

/* Half of what was earned since the last time, by one thread. Returns what is left of the debt. */
static uint64_t debt_repay(struct account *account, uint64_t now_ns)
{
	uint64_t debt_ns = __atomic_load_n(&account->debt_ns, __ATOMIC_ACQUIRE), half_ns;
	uint64_t since_ns = __atomic_load_n(&account->repaid_ns, __ATOMIC_RELAXED);

	if (debt_ns == 0)
		return 0;
	half_ns = earned(account, since_ns, now_ns) / account->parts / 2;
	if (half_ns == 0 || !__atomic_compare_exchange_n(&account->repaid_ns, &since_ns, now_ns, false,
	                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return debt_ns;
	if (half_ns > debt_ns)
		half_ns = debt_ns;
	for (unsigned i = 0; i < ACCOUNT_PURSES; i++)
		__atomic_fetch_add(&account->spent_ns[i], half_ns >> i, __ATOMIC_RELAXED);
	return __atomic_sub_fetch(&account->debt_ns, half_ns, __ATOMIC_RELAXED);
}

uint64_t account_room(struct account *account, enum account_purse purse, uint64_t now_ns)
{
	uint64_t least_ns = debt_repay(account, now_ns) > kept(account) ? 0 : UINT64_MAX;

	for (unsigned i = 0; i <= purse; i++) {
		uint64_t room_ns = purse_room(account, i, now_ns);

		if (room_ns < least_ns)
			least_ns = room_ns;
	}
	return least_ns;
}

static void purses_add(struct account *account, enum account_purse purse, uint64_t more_ns, uint64_t less_ns)
{
	for (unsigned i = 0; i <= purse; i++)
		__atomic_fetch_add(&account->spent_ns[i], more_ns - less_ns, __ATOMIC_RELAXED);
}

/* Set aside first and looked at then: of two threads that want the last of it, one is refused, or both. */
bool account_begin(struct account *account, struct account_nap *nap, enum account_purse purse, uint64_t now_ns,
                   uint64_t cost_ns)
{
	uint64_t allowed_ns = account_allowed(account, now_ns);
	bool within = debt_repay(account, now_ns) <= kept(account);

	purses_add(account, purse, cost_ns, 0);
	for (unsigned i = 0; i <= purse; i++)
		if (__atomic_load_n(&account->spent_ns[i], __ATOMIC_RELAXED) > allowed_ns >> i)
			within = false;
	if (!within) {
		purses_add(account, purse, 0, cost_ns);
		return false;
	}
	*nap = (struct account_nap){
	        .open = true, .purse = purse, .aside_ns = cost_ns, .began_ns = now_ns, .woke_ns = now_ns};
	return true;
}

uint64_t account_end(struct account *account, struct account_nap *nap, bool arrived)
{
	uint64_t charge_ns = arrived && nap->woke_ns > nap->began_ns ? nap->woke_ns - nap->began_ns : 0;
	uint64_t own_ns = charge_ns < nap->aside_ns ? charge_ns : nap->aside_ns;

	purses_add(account, nap->purse, own_ns, nap->aside_ns);
	nap->open = false;
	if (nap->shared)
		return own_ns;
	if (charge_ns > own_ns)
		debt_add(account, charge_ns - own_ns, nap->woke_ns);
	return charge_ns;
}

void account_doubt(struct account *account, uint64_t late_ns, uint64_t now_ns)
{
	debt_add(account, late_ns, now_ns);
}

void account_forgive(struct account *account, uint64_t late_ns)
{
	uint64_t debt_ns = __atomic_load_n(&account->debt_ns, __ATOMIC_ACQUIRE), less_ns;

	do
		less_ns = late_ns < debt_ns ? late_ns : debt_ns;
	while (!__atomic_compare_exchange_n(&account->debt_ns, &debt_ns, debt_ns - less_ns, false, __ATOMIC_RELEASE,
	                                    __ATOMIC_ACQUIRE));
}
