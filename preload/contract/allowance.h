/*
 * Allowance: how late a job's ranks may be in all because they slept. The account (budget/account.h) holds each thread
 * to it, and the record reports it.
 */
#pragma once

#include <stdint.h>

#define ALLOWANCE_START_NS 2000000.0 /* allowance at the opening, before any time has passed */

/* Returns start + slowdown * lasted_ns. */
static inline double allowance_ns(uint64_t lasted_ns, uint64_t slowdown_ppm)
{
	return ALLOWANCE_START_NS + (double)lasted_ns * (double)slowdown_ppm * 1e-6;
}
