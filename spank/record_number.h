/* How numbers are printed in the job's record. */
#ifndef MPIWAIT_SPANK_RECORD_NUMBER_H
#define MPIWAIT_SPANK_RECORD_NUMBER_H

#include <jansson.h>
#include <math.h>

/* Rounded to so many decimals; without a fraction it is printed as an integer. */
static inline json_t *number(double value, int decimals)
{
	double scale = pow(10, decimals);
	double rounded = round(value * scale) / scale;

	return rounded == floor(rounded) && fabs(rounded) < 1e15 ? json_integer((json_int_t)rounded)
	                                                         : json_real(rounded);
}

#endif
