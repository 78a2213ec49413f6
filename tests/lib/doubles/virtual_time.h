/*
 * The virtual clock (virtual_time.c) for other doubles, as weak symbols: NULL if it is not preloaded.
 */
#pragma once

#include <stdint.h>

#define VIRTUAL __attribute__((weak, visibility("default")))

/* Rate of the TSC where it is virtual too (tests/lib/emulate): 2.5 ticks a nanosecond. */
#define VIRTUAL_TSC_KHZ 2500000

/* Read the calling thread's time, and let the thread sleep. */
VIRTUAL uint64_t virtual_read_ns(void);
VIRTUAL void virtual_sleep(uint64_t ns);

/* Return the number of naps that the process has begun, and of those that a signal has ended. */
VIRTUAL uint64_t virtual_naps(void);
VIRTUAL uint64_t virtual_interrupted(void);
