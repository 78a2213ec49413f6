/*
 * Cost: by how much the periods of calls slept in were longer than the periods of the same calls in looks, in which no
 * rank of the job sleeps. The ranks measure it. Pure.
 *
 * A node writes "cost": {"slept_us", "more_us", "deviation_us", "windows", "slowdown_ppm"}, and nothing if nothing was
 * compared. Invariant: |more_us| and deviation_us are at most slept_us; all are whole numbers.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define COST_PPM 1000000 /* parts per million: the whole */

/* Cost of one thread, or summed over a rank, a node or a job. Zeros: nothing was compared. */
struct record_cost {
	double slept_us;     /* sum of the compared periods of calls slept in */
	double more_us;      /* how much longer these were in all than those in looks; negative: shorter */
	double deviation_us; /* standard deviation of more_us; added up, since ranks see the same periods */
	double windows;      /* looks compared with, by the thread that has most */
	double slowdown_ppm; /* slowdown= of the rank that allows most; 0: no account */
};

/* Adds the cost of another thread, rank or node. */
void record_cost_add(struct record_cost *sum, const struct record_cost *more);

/* Sets "cost" in a node's "wait" of a step, cut to what its reader takes; nothing if nothing was compared. */
void record_cost_write(json_t *wait, const struct record_cost *cost);

/* Adds "cost" of a step's "wait", hostile input; absent adds nothing. Returns true if a node can have written it. */
bool record_cost_read(const json_t *wait, struct record_cost *sum);

/*
 * Returns the cost as a part of the periods slept in, and half of its 95 % interval: two standard deviations. Returns
 * false if nothing was compared.
 */
bool record_cost_part(const struct record_cost *cost, double *ret_longer, double *ret_error);

/*
 * Sets "cost" in the job's "wait", in percent of the periods slept in, with half of the 95 % interval as its error;
 * nothing if nothing was compared.
 */
void record_cost_print(json_t *wait, const struct record_cost *sum);
