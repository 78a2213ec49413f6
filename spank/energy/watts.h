/*
 * Watts: what the fit is fed with. At each sample of a step: the energy of every package since the last one, and how
 * long the ranks that run there slept in MPI, spun in MPI, and computed.
 *
 * Ranks are where root finds them running, their times are their own claim (slots.h), cut to the interval. An interval
 * counts only if the package's ranks were the same ones at both ends, all between Init and Finalize and none of them
 * stopped, and its counter had no gap. Only sums are kept.
 */
#ifndef MPIWAIT_SPANK_WATTS_H
#define MPIWAIT_SPANK_WATTS_H

#include <jansson.h>
#include <stdint.h>

#include "spank/energy.h"
#include "spank/fit.h"
#include "spank/processors.h"
#include "spank/slots.h"

/* The sums of each package. */
struct watts {
	uint32_t count;
	struct watts_package {
		int32_t id;
		struct fit_sums sums;
	} package[PACKAGES_MAX];
};

struct watts_feed;

/* NULL only without memory. Freed by watts_feed_free, which takes NULL. */
struct watts_feed *watts_feed_new(void);
void watts_feed_free(struct watts_feed *feed);

/* One sample; the first only says where to begin. */
void watts_feed_add(struct watts_feed *feed, const struct energy_snapshot *now, const struct slots *slots);

/* The sums so far, borrowed. */
const struct watts *watts_feed_sums(const struct watts_feed *feed);

/* Adds the sums of a step to those of the job. */
void watts_merge(struct watts *watts, const struct watts *step);

/* [[package, samples, yy, [xx, 9 of them], [xy, 3], [rank_s, 3]], ...]; NULL: no memory. */
json_t *watts_to_json(const struct watts *watts);

/* Strict. Returns 0 or -EINVAL, *ret_watts untouched. */
int watts_from_json(const json_t *json, struct watts *ret_watts);

#endif
