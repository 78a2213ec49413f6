/*
 * Look: readings of the energy counters around one look of a step, made into a sample for saving.h. Pure.
 *
 *     BEFORE          BEGIN INSIDE              END BEHIND          AFTER
 *     |--- beside ----|..|--------- look --------|..|--- beside ----|
 *
 * Processors update their counters once a millisecond: a reading may be a millisecond old. The time from BEGIN to
 * INSIDE, and from END to BEHIND, may belong to either side and is left out. It includes the time in which only some
 * ranks look.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/energy/saving.h"
#include "spank/machine/rapl.h"

enum look_moment { LOOK_BEFORE, LOOK_BEGIN, LOOK_INSIDE, LOOK_END, LOOK_BEHIND, LOOK_AFTER, LOOK_MOMENTS };

/* Readings around a look. Zeroed, but for what look_begin sets. */
struct look {
	uint64_t due_ns[LOOK_MOMENTS];         /* when the counters must be read */
	uint64_t late_ns;                      /* greatest delay of BEGIN and END; beyond it the look is useless */
	unsigned taken;                        /* number of readings so far */
	bool broken;                           /* a reading was late, or a counter or the set of zones was wrong */
	bool still;                            /* a package's counter did not advance in a part that counts */
	uint64_t at_ns[LOOK_MOMENTS];          /* when the counters were read */
	double used_uj[LOOK_MOMENTS];          /* energy since the previous reading */
	size_t count;                          /* zones */
	struct rapl_zone zone[RAPL_ZONES_MAX]; /* zones of the latest reading */
};

struct look_span {
	uint64_t from_ns, until_ns;
};

/*
 * Begins a new look. all: the time in which all ranks look; any: the time in which any rank looks, which contains it.
 */
void look_begin(struct look *look, struct look_span all, struct look_span any);

/* Takes the next reading, made between those two times. */
void look_read(struct look *look, const struct rapl_zone zones[], size_t count, uint64_t began_ns, uint64_t ended_ns);

/*
 * Sets the energies and lengths of *ret_look; its figures of ranks are zeros. Returns false if a reading is missing or
 * wrong.
 */
bool look_end(const struct look *look, struct saving_look *ret_look);
