/*
 * Runs: ascending numbers in few words, where they stand at equal distances: [first, count], or [first, count,
 * distance] where that is not 1. A name may stand before them. Pure.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* Zeros: none yet. */
struct run {
	size_t first, last, count, distance;
};

/* Takes one more number; ends the run first, as a row, where it does not belong to it. name: NULL for none. */
void run_add(json_t *rows, struct run *run, size_t number, const char *name);

/* Ends the run, if there is one, as a row. */
void run_end(json_t *rows, struct run *run, const char *name);
