/*
 * Saving: a node's power in looks (preload/contract/looks.h), in which no rank of a step sleeps, against its power
 * beside them. There is no model: both are measured in the same job, on its own hardware. Pure.
 *
 *     power   |--- beside ---|------ look ------|--- beside ---|
 *             half as long    nobody sleeps      half as long
 *
 * Each look makes a pair of powers: in the look, and just before and after it, for the same length. A phase of the
 * program, or the heat of the room, is in both. Looks lie at random times (a hash), so that other differences within a
 * pair have either sign. The ratio is the one at which the trimmed mean of the residuals, beside_w less ratio times
 * look_w, is 0. Its interval comes from the residuals' spread.
 *
 * A counter that is updated less often than a part of a pair lasts stands still in some parts. Such pairs are counted,
 * but not used. The number of pairs is bounded, however long a step is: when they are full, each two become one.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SAVING_PAIRS_MAX   128u
#define SAVING_LOOKS_LEAST 20u /* fewer looks tell nothing */

/* One look, and the time beside it. */
struct saving_look {
	double look_j, look_s;
	double beside_j, beside_s;
	bool still;      /* a counter did not advance in one of the parts */
	double slept_s;  /* time that the ranks' threads slept in the look */
	double awake_s;  /* length of the look, times threads */
	double asleep_s; /* time that they slept behind the look */
	double spent_s;  /* length of that time, times threads */
};

/* Mean power in looks and beside them. */
struct saving_pair {
	double look_w;
	double beside_w;
};

/* Looks of a step, or of all steps of a job on a node. Zeros: no look was seen. */
struct saving {
	uint32_t each;            /* looks per pair, which is their mean; 0: there is no pair */
	uint32_t count;           /* pairs */
	uint32_t begun;           /* looks in open */
	uint32_t still;           /* looks in which a counter stood still */
	double slept_s, awake_s;  /* sums of saving_look: of the used ones, or of all while none was used */
	double asleep_s, spent_s; /* likewise */
	struct saving_pair open;  /* sum of the looks that make no pair yet */
	struct saving_pair pair[SAVING_PAIRS_MAX];
};

/* Result of saving_solve. */
struct saving_result {
	const char *why; /* why look_w, beside_w and error_w are unknown; NULL: they are known */
	double looks;
	double look_w;   /* mean power in looks */
	double beside_w; /* look_w times the ratio */
	double error_w;  /* half of the 95 % interval of beside_w */
	bool at_least;   /* ranks slept in looks too, though less: more is saved than the figures tell */
};

/*
 * Adds a look. A look with a part without length or power is left out. So is one in which the ranks slept more than
 * half as much as beside it: strict looks (preload/contract/looks.h) tell of jobs whose waits are long. What they slept
 * in such looks is kept until another look is used.
 */
void saving_add(struct saving *saving, const struct saving_look *look);

/* Adds a step's looks to *sum. */
void saving_merge(struct saving *sum, const struct saving *step);

/* Returns true if a look was seen, used or not. */
bool saving_seen(const struct saving *saving);

/* Computes the powers and the interval, or the reason why they are unknown. */
void saving_solve(const struct saving *saving, struct saving_result *ret_result);

/* Reasons of saving_solve. */
#define SAVING_FEW    "too few looks"
#define SAVING_COARSE "counters too coarse"
#define SAVING_AWAKE  "no rank slept"
#define SAVING_ASLEEP "ranks slept in looks"

/* Returns {"each", "still", "ranks_us": [...], "pairs": [[look mW, beside mW], ...]}, or NULL without memory. */
json_t *saving_to_json(const struct saving *saving);

/* Parses that JSON strictly. Returns 0, or -EINVAL with *ret_saving untouched. */
int saving_from_json(const json_t *json, struct saving *ret_saving);
