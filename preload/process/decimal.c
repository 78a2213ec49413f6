/* Writes numbers. Contract: decimal.h. */
#include "preload/process/decimal.h"

char *decimal_write(char *at, uint32_t number)
{
	char digits[10];
	int count = 0;

	do
		digits[count++] = (char)('0' + number % 10);
	while (number /= 10);
	while (count > 0)
		*at++ = digits[--count];
	return at;
}
