/*
 * What other doubles need of the virtual clock (virtual_time.c), by weak symbols: NULL where it is not preloaded.
 */
#pragma once

#include <stdint.h>

#define VIRTUAL __attribute__((weak, visibility("default")))

/* Of the TSC, where that is virtual too (tests/lib/emulate): 2.5 ticks a nanosecond. */
#define VIRTUAL_TSC_KHZ 2500000

/* A reading of the calling thread's time, and a sleep of it. */
VIRTUAL uint64_t virtual_read_ns(void);
VIRTUAL void virtual_sleep(uint64_t ns);

/* How many naps the process has begun, and how many a signal has ended. */
VIRTUAL uint64_t virtual_naps(void);
VIRTUAL uint64_t virtual_interrupted(void);
