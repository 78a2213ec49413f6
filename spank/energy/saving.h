/*
 * Saving: the power of a node in looks (preload/contract/looks.h), in which no rank of a step sleeps, against its power
 * beside them. No model: both are the same job's, on its own hardware. Pure.
 *
 *     power   |--- beside ---|------ look ------|--- beside ---|
 *             half as long    nobody sleeps      half as long
 *
 * Each look makes a pair: its watts, and the watts of the time just before and after it, together as long. So a phase
 * of the program, or the heat of the room, is in both. Where a look lies is chance (a hash), so that what differs
 * within a pair for other reasons differs both ways. The ratio is that at which the trimmed mean of what is left is
 * nought; its interval comes from the spread of what is left.
 *
 * A counter that is renewed more rarely than a part of a pair lasts stands still in some: such pairs are counted, and
 * not used. However long a step is, there is a bounded number of pairs: when they are full, each two become one.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SAVING_PAIRS_MAX   128u
#define SAVING_LOOKS_LEAST 20u /* fewer tell nothing */

/* One look, and what is beside it. */
struct saving_look {
	double look_j, look_s;
	double beside_j, beside_s;
	bool still;      /* a counter did not advance in one of the parts */
	double slept_s;  /* in the look, all ranks together, ... */
	double awake_s;  /* ... of so long */
	double asleep_s; /* the same beside it */
	double spent_s;
};

struct saving_pair {
	double look_w;
	double beside_w;
};

/* The looks of a step, or of all steps of a job on a node. Zeros: no look was seen. */
struct saving {
	uint32_t each;            /* looks that a pair is the mean of; 0: there is no pair */
	uint32_t count;           /* pairs */
	uint32_t begun;           /* looks in open */
	uint32_t still;           /* looks in which a counter stood still */
	double slept_s, awake_s;  /* of all ranks in looks */
	double asleep_s, spent_s; /* beside them */
	struct saving_pair open;  /* the sum of those that make no pair yet */
	struct saving_pair pair[SAVING_PAIRS_MAX];
};

/* why NULL: the rest is known. */
struct saving_result {
	const char *why;
	double looks;
	double look_w;   /* mean power in looks */
	double beside_w; /* look_w times the ratio */
	double error_w;  /* half of the 95 % interval of beside_w */
	bool at_least;   /* ranks slept in looks too, though less: more is saved than is seen */
};

/* Adds a look; one with a part of no length or of no power is left out. */
void saving_add(struct saving *saving, const struct saving_look *look);

/* Adds the pairs of a step to those of others. */
void saving_merge(struct saving *sum, const struct saving *step);

void saving_solve(const struct saving *saving, struct saving_result *ret_result);

/* The reasons that saving_solve gives. */
#define SAVING_FEW    "too few looks"
#define SAVING_COARSE "counters too coarse"
#define SAVING_AWAKE  "no rank slept"
#define SAVING_ASLEEP "ranks slept in looks"

/* {"each", "still", "ranks_us": [...], "pairs": [[look mW, beside mW], ...]}; NULL: no memory. */
json_t *saving_to_json(const struct saving *saving);

/* Strict. Returns 0 or -EINVAL, *ret_saving untouched. */
int saving_from_json(const json_t *json, struct saving *ret_saving);
