/* How numbers are printed in the job's record. */
#ifndef MPIWAIT_SPANK_RECORD_PARTS_NUMBER_H
#define MPIWAIT_SPANK_RECORD_PARTS_NUMBER_H

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define RECORD_SECONDS_MAX 1e12

/* An integer as long as it is one that every reader of JSON can hold; beyond that, what the line will say: 15 digits.
 */
static inline json_t *number_whole(double value)
{
	char digits[32];

	if (fabs(value) < 9007199254740992.0)
		return json_integer((json_int_t)value);
	snprintf(digits, sizeof(digits), "%.15g", value);
	return json_real(strtod(digits, NULL));
}

/* Rounded to so many decimals; without a fraction it is printed as an integer. */
static inline json_t *number(double value, int decimals)
{
	double scale = pow(10, decimals);
	double rounded = round(value * scale) / scale;

	return rounded == floor(rounded) ? number_whole(rounded) : json_real(rounded);
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
