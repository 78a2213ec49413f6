/* Clock and median for the benchmark programs. */
#pragma once

#include <stdlib.h>
#include <time.h>

/* Returns the time of a clock of clock_gettime(2), in seconds. */
static inline double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Returns the median of at least one value; sorts the values. */
static inline double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), compare);
	return values[count / 2];
}
