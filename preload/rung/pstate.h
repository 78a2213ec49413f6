/*
 * The ways to the frequency of a core, by what the site granted: one table row each. Used by rung/pstate.c only.
 *
 * None waits but restore, which waits for at most 100 ms. All keep to the thread that owns the rung (rung/pstate.c).
 */
#pragma once

#include "preload/rung/rung.h"

/* What is known of the core after a step. SILENT: nothing, though it was waited for. */
enum pstate_outcome { PSTATE_UNKNOWN, PSTATE_LOW, PSTATE_FOUND, PSTATE_REFUSED, PSTATE_SILENT, PSTATE_OVER };

struct pstate_way {
	bool (*probe)(const struct config *config);
	/* Asks for the core's lowest frequency, anew or again. UNKNOWN: not yet heard. */
	enum pstate_outcome (*lower)(struct rung_thread *thread);
	/* What has been heard since. NULL: lower has said it all. */
	enum pstate_outcome (*look)(struct rung_thread *thread);
	/* Back to what was found; surely done at the return if it waits. */
	enum pstate_outcome (*restore)(struct rung_thread *thread, bool waits);
};

extern const struct pstate_way pstate_lease, pstate_files;
