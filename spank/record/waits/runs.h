/*
 * Runs: ascending numbers at equal distances, in few words: [first, count], or [first, count, distance] if the distance
 * is not 1. A name may stand in front. Pure.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* A run under construction. Zeros: empty. */
struct run {
	size_t first, last, count, distance;
};

/*
 * Adds a number, greater than those before it. If it does not continue the run, appends the run to `rows` as a row and
 * begins a new one. name: put in front of the row; NULL: none.
 */
void run_add(json_t *rows, struct run *run, size_t number, const char *name);

/* Appends the run to `rows`, unless it is empty, and empties it. */
void run_end(json_t *rows, struct run *run, const char *name);
