/* The step's frequency domains. Its invariant stands in holdings.h. */
#include "spank/cpufreq/holdings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *reason_of(int rc)
{
	if (rc == -EAGAIN)
		return "a cap holds the clock down now";
	if (rc == -EBUSY || rc == -ESTALE)
		return "held by somebody else";
	return rc == -ENOSPC ? "no room for the domain's file" : "the domain's file refused";
}

int holdings_take(struct holdings *holdings, int node_directory, const struct holder *holder, uint32_t policy,
                  hwloc_const_bitmap_t cpus, struct error *error)
{
	struct holding *holding = &holdings->item[holdings->count];
	int rc;

	*holding = (struct holding){.task = HOLDING_NOBODYS, .loan = LOAN_NONE};
	holding->cpus = hwloc_bitmap_dup(cpus);
	if (!holding->cpus)
		return -ENOMEM;
	holdings->count++;
	rc = loan_take(node_directory, policy, holder, &holding->loan, error);
	if (rc < 0)
		snprintf(holding->why, sizeof(holding->why), "%s", reason_of(rc));
	return 0;
}

void holding_refuse(struct holding *holding, const char *why, struct error *error)
{
	if (!holding->why[0])
		snprintf(holding->why, sizeof(holding->why), "%s", why);
	loan_end(&holding->loan, error);
}

void holding_grant(struct holding *holding, int32_t task, const struct domain_use *use,
                   const struct cpufreq_owner *user, struct error *error)
{
	int rc = loan_change(&holding->loan, use, user, error);

	if (rc < 0) {
		holding_refuse(holding, holding->loan.hold.changes ? "the kernel refused" : reason_of(rc), error);
		return;
	}
	holding->task = task;
}

static bool is_meant(const struct holding *holding, int32_t task, hwloc_const_bitmap_t core)
{
	return holding->task == task && hwloc_bitmap_intersects(holding->cpus, core);
}

/* Where it fails, the domain is lost: what is left to undo is loan_end's, or of who has it now. */
static int set(struct holdings *holdings, struct holding *holding, bool low, uint64_t now_ns)
{
	const struct domain_use *use = &holding->loan.hold.change.use;

	holding->is_over = loan_set(&holding->loan, low ? use->low_khz : use->high_khz) < 0;
	if (holding->is_low)
		holdings->low_ns += now_ns - holding->since_ns;
	holding->is_low = low && !holding->is_over;
	holding->since_ns = now_ns;
	if (!low || holding->is_low) {
		holding->changes++;
		holdings->transitions++;
	}
	return holding->is_over ? -ESTALE : 0;
}

static int put_back(struct holdings *holdings, struct holding *holding, uint64_t now_ns)
{
	if (holding->is_low)
		return set(holdings, holding, false, now_ns);
	return holding->is_over ? -ESTALE : 0;
}

static int put_low(struct holdings *holdings, struct holding *holding, uint64_t now_ns, uint64_t until_ns)
{
	if (holding->is_over)
		return -ESTALE;
	holding->until_ns = until_ns;
	/* Asked for again: a domain that was lost meanwhile is noticed. */
	if (!holding->is_low || !loan_holds(&holding->loan))
		return set(holdings, holding, true, now_ns);
	return 0;
}

int holdings_lower(struct holdings *holdings, int32_t task, hwloc_const_bitmap_t core, uint64_t now_ns,
                   uint64_t until_ns)
{
	int result = -ENOENT;

	for (size_t i = 0; i < holdings->count; i++) {
		if (!is_meant(&holdings->item[i], task, core))
			continue;
		if (put_low(holdings, &holdings->item[i], now_ns, until_ns) < 0) {
			holdings_restore(holdings, task, core, now_ns);
			return -ESTALE;
		}
		result = 0;
	}
	return result;
}

int holdings_restore(struct holdings *holdings, int32_t task, hwloc_const_bitmap_t core, uint64_t now_ns)
{
	int result = -ENOENT;

	for (size_t i = 0; i < holdings->count; i++) {
		int rc;

		if (!is_meant(&holdings->item[i], task, core))
			continue;
		rc = put_back(holdings, &holdings->item[i], now_ns);
		if (result != -ESTALE)
			result = rc;
	}
	return result;
}

uint64_t holdings_expire(struct holdings *holdings, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < holdings->count; i++) {
		struct holding *holding = &holdings->item[i];

		if (!holding->is_low)
			continue;
		if (now_ns >= holding->until_ns)
			put_back(holdings, holding, now_ns);
		else if (holding->until_ns < next_ns)
			next_ns = holding->until_ns;
	}
	return next_ns;
}

void holdings_release(struct holdings *holdings, int32_t task, uint64_t now_ns, struct error *error)
{
	for (size_t i = 0; i < holdings->count; i++) {
		struct holding *holding = &holdings->item[i];

		if (holding->task != task)
			continue;
		put_back(holdings, holding, now_ns);
		holding->is_over = true;
		loan_end(&holding->loan, error);
	}
}

void holdings_end(struct holdings *holdings, struct error *error)
{
	for (size_t i = 0; i < holdings->count; i++) {
		loan_end(&holdings->item[i].loan, error);
		hwloc_bitmap_free(holdings->item[i].cpus);
	}
	free(holdings->item);
	*holdings = (struct holdings){.item = NULL};
}
