/* Chooses the clock. Invariant: clock.h. */
#include "preload/process/clock.h"

struct clock_tsc clock_tsc;

void clock_use_tsc(uint64_t khz)
{
#ifdef __x86_64__
	if (khz == 0)
		return;
	clock_tsc.ns_q32 = (UINT64_C(1000000) << 32) / khz;
	clock_tsc.khz = khz;
#else
	(void)khz;
#endif
}
