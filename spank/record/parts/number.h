/* How numbers are printed in the job's record. */
#pragma once

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define RECORD_SECONDS_MAX 1e12

/* What the line will say of it: 15 digits. */
static inline double number_printed(double value)
{
	char digits[32];

	snprintf(digits, sizeof(digits), "%.15g", value);
	return strtod(digits, NULL);
}

/* An integer as long as it is one that every reader of JSON can hold. */
static inline json_t *number_whole(double value)
{
	return fabs(value) < 9007199254740992.0 ? json_integer((json_int_t)value) : json_real(number_printed(value));
}

/* Rounded to so many decimals; without a fraction it is printed as an integer. */
static inline json_t *number(double value, int decimals)
{
	double scale = pow(10, decimals);
	double rounded = round(value * scale) / scale;

	return rounded == floor(rounded) ? number_whole(rounded) : json_real(number_printed(rounded));
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
	return json_real(number_printed(round((double)microseconds / 1e3) / 1e3));
}
