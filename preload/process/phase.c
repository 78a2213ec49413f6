/* Phases of the program. Contract: phase.h. */
#include "preload/process/phase.h"

#include <stdbool.h>

#include "preload/process/clock.h"
#include "preload/process/process.h"

#define LEVEL_FLUSH 2
#define LEVEL_PHASE 3 /* least level that names a phase */

/*
 * Takes an entry of the table for the level if it is free. Returns true if the entry is the level's now. Two threads
 * may try at the same time.
 */
static bool level_take(int32_t *entry, int32_t level)
{
	int32_t found = 0;

	return __atomic_compare_exchange_n(entry, &found, level, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
	       found == level;
}

static uint32_t index_of(struct mpiwait_phases *phases, int32_t level)
{
	if (level < LEVEL_PHASE)
		return MPIWAIT_PHASE_NONE;
	for (uint32_t i = 0; i < MPIWAIT_PHASES; i++)
		if (level_take(&phases->level[i], level))
			return i + 1;
	return MPIWAIT_PHASE_OTHER;
}

void phase_start(void)
{
	process.slot->phases.since_ns = process.slot->start_ns;
}

void phase_tell(int level)
{
	struct mpiwait_phases *phases;
	uint64_t now_ns, since_ns;
	uint32_t index, before;

	if (!(process_mode() & PROCESS_PROFILES) || level == LEVEL_FLUSH)
		return;
	phases = &process.slot->phases;
	index = index_of(phases, level);
	now_ns = clock_read_ns(CLOCK_MONOTONIC);
	since_ns = __atomic_exchange_n(&phases->since_ns, now_ns, __ATOMIC_RELAXED);
	before = __atomic_exchange_n(&process.phase, index, __ATOMIC_RELAXED);
	__atomic_store_n(&phases->latest, index, __ATOMIC_RELAXED);
	if (now_ns > since_ns)
		__atomic_fetch_add(&phases->time_ns[before], now_ns - since_ns, __ATOMIC_RELAXED);
}
