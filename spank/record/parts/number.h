/* How numbers are printed in the job's record. */
#ifndef MPIWAIT_SPANK_RECORD_PARTS_NUMBER_H
#define MPIWAIT_SPANK_RECORD_PARTS_NUMBER_H

#include <jansson.h>
#include <math.h>
#include <stdint.h>

#define RECORD_SECONDS_MAX 1e12

/* Rounded to so many decimals; without a fraction it is printed as an integer. */
static inline json_t *number(double value, int decimals)
{
	double scale = pow(10, decimals);
	double rounded = round(value * scale) / scale;

	return rounded == floor(rounded) && fabs(rounded) < 1e15 ? json_integer((json_int_t)rounded)
	                                                         : json_real(rounded);
}

static inline json_t *record_seconds(double value)
{
	return number(value < RECORD_SECONDS_MAX ? value : RECORD_SECONDS_MAX, 3);
}

/* Of a node's record, where times are in microseconds. */
static inline double seconds_of(uint64_t microseconds)
{
	return (double)microseconds / 1e6;
}

/* The same of microseconds, always with a fraction. */
static inline json_t *record_seconds_of(uint64_t microseconds)
{
	return json_real(round((double)microseconds / 1e3) / 1e3);
}

#endif
