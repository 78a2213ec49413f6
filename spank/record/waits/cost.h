/*
 * What sleeping in waits cost: how much longer the periods of calls slept in were than those of the same calls in
 * looks, in which no rank of the job sleeps, as the ranks measured it. Pure.
 *
 * A node's: "cost": {"slept_us", "more_us", "deviation_us", "windows", "slowdown_ppm"}, absent where nothing was
 * compared. Invariant: more_us lies within -slept_us and slept_us, deviation_us within 0 and slept_us; all are whole
 * numbers.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define COST_PPM 1000000 /* of all there is */

/* Of one thread, or of all of a rank, a node or a job. Zeros: nothing was compared. */
struct record_cost {
	double slept_us;     /* sum of the periods of calls slept in that were compared */
	double more_us;      /* how much longer these were in all than those looked at; negative: shorter */
	double deviation_us; /* standard deviation of more_us; ranks see the same periods, so theirs are added up */
	double windows;      /* looks that were compared with, the most of any thread */
	double slowdown_ppm; /* what slowdown= allows, the most of any rank; 0: there is no account */
};

/* Adds another part's. */
void record_cost_add(struct record_cost *sum, const struct record_cost *more);

/* Sets it in a step's "wait" on a node, cut to what its reader takes; nothing where nothing was compared. */
void record_cost_write(json_t *wait, const struct record_cost *cost);

/* Adds what a step's "wait" has, hostile input; absent: nothing. Returns whether it is what a node writes. */
bool record_cost_read(const json_t *wait, struct record_cost *sum);

/* As a part of the periods slept in, and half of its 95 % interval. Returns false where nothing was compared. */
bool record_cost_part(const struct record_cost *cost, double *ret_longer, double *ret_error);

/*
 * Sets it in the job's, in percent of the periods; nothing where nothing was compared. The error is half the width of
 * the 95 % interval: two standard deviations.
 */
void record_cost_print(json_t *wait, const struct record_cost *sum);
