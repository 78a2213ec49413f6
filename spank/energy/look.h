/*
 * Look: the readings of the energy counters around one look of a step, made into what saving.h compares. Pure.
 *
 *     BEFORE          BEGIN INSIDE              END BEHIND          AFTER
 *     |--- beside ----|..|--------- look --------|..|--- beside ----|
 *
 * Counters are renewed once a millisecond, so that a reading may show what was used until a millisecond before. What
 * lies between BEGIN and INSIDE, or END and BEHIND, may be of either side, and is of neither. So is the time in which
 * some ranks look and others do not.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/energy/saving.h"
#include "spank/machine/rapl.h"

enum look_moment { LOOK_BEFORE, LOOK_BEGIN, LOOK_INSIDE, LOOK_END, LOOK_BEHIND, LOOK_AFTER, LOOK_MOMENTS };

/* Zeros, but for what look_begin sets. */
struct look {
	uint64_t due_ns[LOOK_MOMENTS]; /* when the counters are to be read */
	uint64_t late_ns;              /* the look is of no use if BEGIN or END is read later than that */
	unsigned taken;                /* readings so far */
	bool broken;                   /* a reading was late, or a counter or its zone was not right */
	bool still;                    /* a package's counter did not advance in a part that counts */
	uint64_t at_ns[LOOK_MOMENTS];
	double used_uj[LOOK_MOMENTS]; /* since the reading before */
	size_t count;
	struct rapl_zone zone[RAPL_ZONES_MAX]; /* of the latest reading */
};

struct look_span {
	uint64_t from_ns, until_ns;
};

/* Forgets the look before. all: while all ranks look; any: while any rank does, from no later to no earlier. */
void look_begin(struct look *look, struct look_span all, struct look_span any);

/* The next reading, which was made between those two times. */
void look_read(struct look *look, const struct rapl_zone zones[], size_t count, uint64_t began_ns, uint64_t ended_ns);

/* Returns whether all was read and is right; of the ranks *ret_look says nothing. */
bool look_end(const struct look *look, struct saving_look *ret_look);
