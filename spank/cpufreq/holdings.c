/* The step's frequency domains. Its invariant stands in holdings.h. */
#include "spank/cpufreq/holdings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(int rc, char why[DOMAIN_WHY_MAX], const char *reason)
{
	snprintf(why, DOMAIN_WHY_MAX, "%s", reason);
	return rc;
}

/* Written down first, changed by nobody yet. */
static int write_down(struct holdings *holdings, struct holding *holding, const struct cpufreq_owner *gives,
                      struct error *error)
{
	struct journal_change governor = {.file = CPUFREQ_GOVERNOR, .governor = "userspace"};
	struct journal_change change = {
	        .file = holding->use.file,
	        .low_khz = holding->use.low_khz,
	        .high_khz = holding->use.high_khz,
	        .gives = gives != NULL,
	};
	struct journal_found found;
	int rc = 0;

	if (gives)
		change.owner = *gives;
	if (holding->use.sets_governor)
		rc = journal_record(holdings->journal, holding->policy, &governor, NULL, error);
	if (rc == 0)
		rc = journal_record(holdings->journal, holding->policy, &change, &found, error);
	if (rc == 0 && found.value[0] && strcmp(found.value, holding->high) != 0)
		return -EAGAIN; /* it was changed since it was read */
	return rc;
}

static int apply(struct holdings *holdings, struct holding *holding, const struct cpufreq_owner *gives)
{
	int rc = 0;

	if (holding->use.sets_governor)
		rc = journal_set(holdings->journal, holding->policy, CPUFREQ_GOVERNOR, "userspace");
	if (rc == 0 && holding->use.sets_governor)
		rc = journal_set(holdings->journal, holding->policy, CPUFREQ_SETSPEED, holding->high);
	if (rc == 0 && gives)
		rc = journal_give(holdings->journal, holding->policy, holding->use.file);
	return rc;
}

static const char *reason_of(int rc)
{
	if (rc == -EAGAIN)
		return "a cap holds the clock down now";
	if (rc == -EBUSY || rc == -ESTALE)
		return "claimed by somebody else";
	if (rc == -ENOSPC)
		return "no room for the journal";
	return "the journal refused";
}

int holdings_claim(struct holdings *holdings, uint32_t policy, uint32_t task, hwloc_const_bitmap_t cpus,
                   const struct domain_use *use, const struct cpufreq_owner *gives, char why[DOMAIN_WHY_MAX],
                   struct error *error)
{
	struct holding *holding = &holdings->item[holdings->count];
	int rc = journal_claim(holdings->journal, policy, error);

	if (rc < 0)
		return refuse(rc, why, reason_of(rc));
	*holding = (struct holding){.policy = policy, .task = task, .use = *use, .held = true};
	snprintf(holding->low, sizeof(holding->low), "%u", use->low_khz);
	snprintf(holding->high, sizeof(holding->high), "%u", use->high_khz);
	rc = write_down(holdings, holding, gives, error);
	if (rc < 0)
		refuse(rc, why, reason_of(rc));
	else if ((rc = apply(holdings, holding, gives)) < 0)
		refuse(rc, why, "the kernel refused");
	else if (!(holding->cpus = hwloc_bitmap_dup(cpus)))
		rc = refuse(-ENOMEM, why, "no memory");
	if (rc < 0) {
		journal_release(holdings->journal, policy, error);
		return rc;
	}
	holdings->count++;
	return 0;
}

static int put_back(struct holdings *holdings, struct holding *holding, uint64_t now_ns)
{
	int rc;

	if (!holding->is_low)
		return 0;
	rc = journal_set(holdings->journal, holding->policy, holding->use.file, holding->high);
	holding->is_low = false;
	holdings->low_ns += now_ns - holding->since_ns;
	holdings->transitions++;
	holding->changes++;
	if (rc < 0)
		holding->held = false; /* what is left to undo is the journal's */
	return rc < 0 ? -ESTALE : 0;
}

static int put_low(struct holdings *holdings, struct holding *holding, uint64_t now_ns, uint64_t until_ns)
{
	holding->until_ns = until_ns;
	/* Asked for again: a claim that was lost meanwhile is noticed. */
	if (holding->is_low && journal_holds(holdings->journal, holding->policy))
		return 0;
	if (!holding->is_low && journal_set(holdings->journal, holding->policy, holding->use.file, holding->low) == 0) {
		holding->is_low = true;
		holding->since_ns = now_ns;
		holding->changes++;
		holdings->transitions++;
		return 0;
	}
	if (holding->is_low)
		holdings->low_ns += now_ns - holding->since_ns;
	holding->is_low = holding->held = false;
	return -ESTALE;
}

int holdings_lower(struct holdings *holdings, uint32_t task, hwloc_const_bitmap_t core, uint64_t now_ns,
                   uint64_t until_ns)
{
	int result = -ENOENT;

	for (size_t i = 0; i < holdings->count; i++) {
		struct holding *holding = &holdings->item[i];

		if (holding->task != task || !hwloc_bitmap_intersects(holding->cpus, core))
			continue;
		if (!holding->held || put_low(holdings, holding, now_ns, until_ns) < 0) {
			holdings_restore(holdings, task, core, now_ns);
			return -ESTALE;
		}
		result = 0;
	}
	return result;
}

int holdings_restore(struct holdings *holdings, uint32_t task, hwloc_const_bitmap_t core, uint64_t now_ns)
{
	int result = -ENOENT;

	for (size_t i = 0; i < holdings->count; i++) {
		struct holding *holding = &holdings->item[i];
		int rc;

		if (holding->task != task || !hwloc_bitmap_intersects(holding->cpus, core))
			continue;
		rc = holding->held ? put_back(holdings, holding, now_ns) : -ESTALE;
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

void holdings_release(struct holdings *holdings, uint32_t task, uint64_t now_ns, struct error *error)
{
	for (size_t i = 0; i < holdings->count; i++) {
		struct holding *holding = &holdings->item[i];

		if (holding->task != task || !holding->held)
			continue;
		put_back(holdings, holding, now_ns);
		holding->held = false;
		journal_release(holdings->journal, holding->policy, error);
	}
}

void holdings_end(struct holdings *holdings, struct error *error)
{
	journal_end(holdings->journal, error);
	holdings->journal = NULL;
	for (size_t i = 0; i < holdings->count; i++)
		hwloc_bitmap_free(holdings->item[i].cpus);
	free(holdings->item);
	holdings->item = NULL;
	holdings->count = 0;
}
