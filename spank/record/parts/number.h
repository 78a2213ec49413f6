/* How numbers are read from a node's record, and printed in the job's. */
#pragma once

#include "spank/base/json.h"

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

/* The same of microseconds, as times are in a node's record, and always with a fraction. */
static inline json_t *record_seconds_real(double microseconds)
{
	return json_real(number_printed(round(microseconds / 1e3) / 1e3));
}

/* A node's integer, cut to the most that its reader takes. */
static inline json_t *whole_json(uint64_t value, int64_t most)
{
	return json_integer(value < (uint64_t)most ? (json_int_t)value : most);
}

/* A node's integer that lies in [0, most]. */
static inline bool whole_of(const json_t *value, int64_t most, double *ret_value)
{
	uint64_t whole;
	bool good = integer_of(value, most, &whole);

	*ret_value = (double)whole;
	return good;
}
