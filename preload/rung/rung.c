/*
 * The table of rungs. Invariant: one row per rung of enum mpiwait_rung. A rung without a probe is a name that policies
 * may use and this release lacks.
 */
#include "preload/rung/rung.h"

static bool probe_always(const struct config *config)
{
	(void)config;
	return true;
}

const struct rung rung_table[MPIWAIT_RUNG_COUNT] = {
#define RUNG(constant, name, built, sleeps, ...) [MPIWAIT_RUNG_##constant] = {__VA_ARGS__},
#include "preload/contract/rungs.def"
};

uint32_t rung_available(const struct config *config)
{
	uint32_t available = 0;

	for (uint32_t i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		if (config->rungs & (1u << i) && rung_table[i].probe && rung_table[i].probe(config))
			available |= 1u << i;
	return available;
}

void rung_leave(struct rung_thread *thread)
{
	for (uint32_t i = 0; i < MPIWAIT_RUNG_COUNT; i++)
		if (rung_table[i].leave)
			rung_table[i].leave(thread);
}
