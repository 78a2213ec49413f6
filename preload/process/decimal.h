/*
 * Numbers as text, for paths and small files: the C library's printf may allocate and lock.
 */
#pragma once

#include <stdint.h>

/* Writes the number, not terminated; returns the byte after it. */
char *decimal_write(char *at, uint32_t number);
