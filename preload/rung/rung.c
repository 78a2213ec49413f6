/*
 * The table of rungs. Invariant: one row per rung of enum mpiwait_rung; one without a probe is a name that policies
 * may use and this release cannot do.
 */
#include "preload/rung/rung.h"

static bool probe_always(const struct config *config)
{
	(void)config;
	return true;
}

const struct rung rung_table[MPIWAIT_RUNG_COUNT] = {
        [MPIWAIT_RUNG_PAUSE] = {.probe = probe_always, .instant = true, .doze = rung_pause_doze},
        [MPIWAIT_RUNG_YIELD] = {.probe = probe_always, .exit_ns = 300, .doze = rung_yield_doze},
        [MPIWAIT_RUNG_UMWAIT] = {.probe = rung_waitpkg_probe,
                                 .exit_ns = 500,
                                 .timed = true,
                                 .holds_core = true,
                                 .most_ns = rung_waitpkg_most,
                                 .doze = rung_waitpkg_doze},
        [MPIWAIT_RUNG_MWAITX] = {.probe = rung_mwaitx_probe,
                                 .exit_ns = 500,
                                 .timed = true,
                                 .holds_core = true,
                                 .doze = rung_mwaitx_doze},
        [MPIWAIT_RUNG_NAP] = {.probe = probe_always,
                              .exit_ns = 10000,
                              .timed = true,
                              .doze = rung_nap_doze,
                              .leave = rung_nap_leave},
        [MPIWAIT_RUNG_EVENT] =
                {.probe = rung_event_probe, .exit_ns = 10000, .timed = true, .woken = true, .doze = rung_event_doze},
        [MPIWAIT_RUNG_PSTATE] = {.probe = rung_pstate_probe, .leave = rung_pstate_leave},
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
