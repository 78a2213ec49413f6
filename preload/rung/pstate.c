/*
 * pstate: the core's lowest frequency for the rest of a wait. Invariant: what is lowered is restored before the call
 * returns, and it is the core that was lowered, wherever the thread is by then.
 *
 * One thread of the process at a time, the first that asks: what is granted belongs to the task. A refusal is not
 * asked about again for a while; an end of the grant never. Who was silent is asked again after 10 s, and after twice
 * as long each time: what is waited for it in vain stays below a hundredth of the time.
 */
#include "preload/rung/pstate.h"

#include <errno.h>

#include "preload/lease.h"
#include "preload/process/clock.h"

#define REFUSED_NS UINT64_C(100000000)
#define SILENT_NS  UINT64_C(10000000000)

static struct {
	const struct pstate_way *way;
	bool taken;             /* by a thread in a wait */
	uint64_t not_before_ns; /* after a refusal, or a silence; UINT64_MAX: the grant is over */
	uint64_t silent_ns;     /* how long the next silence is left alone; its owner's, as the rung is */
} pstate = {.silent_ns = SILENT_NS};

bool rung_pstate_probe(const struct config *config)
{
	if (config->pstate_after_ns == 0 || config->cpufreq == CONFIG_CPUFREQ_NONE)
		return false;
	pstate.way = config->cpufreq == CONFIG_CPUFREQ_LEASE ? &pstate_lease : &pstate_files;
	return pstate.way->probe(config);
}

/* A lease that was not asked for again (suspended, or long inside the runtime) came back by itself meanwhile. */
static void time_count(struct rung_thread *thread, uint64_t now_ns)
{
	uint64_t until_ns = thread->pstate.asked_ns + MPIWAIT_LEASE_HOLD_NS;

	if (!pstate.way->look || until_ns > now_ns)
		until_ns = now_ns;
	if (thread->pstate.sure && until_ns > thread->pstate.counted_ns)
		thread->lane->asleep_ns[MPIWAIT_RUNG_PSTATE] += until_ns - thread->pstate.counted_ns;
	thread->pstate.counted_ns = now_ns;
}

static void give_up(struct rung_thread *thread, uint64_t not_before_ns)
{
	thread->pstate.asked = thread->pstate.sure = false;
	__atomic_store_n(&pstate.not_before_ns, not_before_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&pstate.taken, false, __ATOMIC_RELEASE);
}

static void learn(struct rung_thread *thread, enum pstate_outcome outcome, uint64_t now_ns)
{
	if (outcome == PSTATE_LOW && !thread->pstate.sure) {
		thread->pstate.sure = true;
		thread->pstate.counted_ns = thread->pstate.asked_ns;
		thread->lane->naps[MPIWAIT_RUNG_PSTATE]++;
	} else if (outcome == PSTATE_REFUSED) {
		time_count(thread, now_ns);
		give_up(thread, now_ns + REFUSED_NS);
	} else if (outcome == PSTATE_OVER) {
		give_up(thread, UINT64_MAX);
	}
	time_count(thread, now_ns);
}

static void lower(struct rung_thread *thread, uint64_t now_ns)
{
	if (!thread->pstate.asked) {
		if (now_ns < __atomic_load_n(&pstate.not_before_ns, __ATOMIC_RELAXED) ||
		    __atomic_exchange_n(&pstate.taken, true, __ATOMIC_ACQ_REL))
			return;
		thread->pstate.asked = true;
	} else if (now_ns - thread->pstate.asked_ns < MPIWAIT_LEASE_RENEW_NS) {
		if (!thread->pstate.sure && pstate.way->look)
			learn(thread, pstate.way->look(thread), now_ns);
		return;
	} else if (pstate.way->look) {
		learn(thread, pstate.way->look(thread), now_ns);
		if (!thread->pstate.asked)
			return;
	}
	thread->pstate.asked_ns = now_ns;
	learn(thread, pstate.way->lower(thread), now_ns);
}

static uint64_t not_before(enum pstate_outcome outcome, uint64_t now_ns)
{
	uint64_t silent_ns = pstate.silent_ns;

	if (outcome != PSTATE_SILENT)
		return outcome == PSTATE_OVER ? UINT64_MAX : 0;
	pstate.silent_ns *= 2;
	return now_ns + silent_ns;
}

static void restore(struct rung_thread *thread, uint64_t now_ns, bool waits)
{
	enum pstate_outcome outcome;

	if (pstate.way->look && !thread->pstate.sure)
		learn(thread, pstate.way->look(thread), now_ns);
	if (!thread->pstate.asked)
		return;
	outcome = pstate.way->restore(thread, waits);
	time_count(thread, now_ns);
	give_up(thread, not_before(outcome, now_ns));
}

void rung_pstate_hold(struct rung_thread *thread, uint64_t now_ns, bool low)
{
	int saved = errno;

	if (low)
		lower(thread, now_ns);
	else if (thread->pstate.asked)
		restore(thread, now_ns, false);
	errno = saved;
}

void rung_pstate_leave(struct rung_thread *thread)
{
	int saved = errno;

	if (!thread->pstate.asked)
		return;
	restore(thread, clock_now_ns(), true);
	errno = saved;
}
