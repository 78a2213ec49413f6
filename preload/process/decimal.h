/* Decimal: numbers as text, for paths and small files. The C library's printf may allocate and lock. */
#pragma once

#include <stdint.h>

/* Writes the number without a terminator. Returns the position behind it. */
char *decimal_write(char *at, uint32_t number);
