/* Numbers: how they are read from a node's record, and printed in the job's. */
#pragma once

#include "spank/base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define RECORD_SECONDS_MAX 1e12

/* Returns the value as the printed line will have it: rounded to 15 digits. */
static inline double number_printed(double value)
{
	char digits[32];

	snprintf(digits, sizeof(digits), "%.15g", value);
	return strtod(digits, NULL);
}

/* Returns a JSON integer if every reader of JSON can hold the value exactly (below 2^53), else a real. */
static inline json_t *number_whole(double value)
{
	return fabs(value) < 9007199254740992.0 ? json_integer((json_int_t)value) : json_real(number_printed(value));
}

/* Returns the value rounded to `decimals`; as a JSON integer if it has no fraction. */
static inline json_t *number(double value, int decimals)
{
	double scale = pow(10, decimals);
	double rounded = round(value * scale) / scale;

	return rounded == floor(rounded) ? number_whole(rounded) : json_real(number_printed(rounded));
}

/* Returns seconds to the millisecond. */
static inline json_t *record_seconds(double value)
{
	return number(value < RECORD_SECONDS_MAX ? value : RECORD_SECONDS_MAX, 3);
}

/* Returns microseconds, which a node's record has, as seconds to the millisecond, and always as a JSON real. */
static inline json_t *record_seconds_real(double microseconds)
{
	return json_real(number_printed(round(microseconds / 1e3) / 1e3));
}

/* Returns a node's integer, cut to the most that its reader takes. */
static inline json_t *whole_json(uint64_t value, int64_t most)
{
	return json_integer(value < (uint64_t)most ? (json_int_t)value : most);
}

/* Reads a node's integer. Returns true if it lies in [0, most]. */
static inline bool whole_of(const json_t *value, int64_t most, double *ret_value)
{
	uint64_t whole;
	bool good = integer_of(value, most, &whole);

	*ret_value = (double)whole;
	return good;
}
