/*
 * What other doubles need of the virtual clock (virtual_time.c), by weak symbols: NULL where it is not preloaded.
 */
#ifndef MPIWAIT_TESTS_VIRTUAL_TIME_H
#define MPIWAIT_TESTS_VIRTUAL_TIME_H

#include <stdint.h>

/* A reading of the calling thread's time, and a sleep of it. */
__attribute__((weak)) uint64_t virtual_read_ns(void);
__attribute__((weak)) void virtual_sleep(uint64_t ns);

/* How many naps the process has begun, and how many a signal has ended. */
__attribute__((weak)) uint64_t virtual_naps(void);
__attribute__((weak)) uint64_t virtual_interrupted(void);

#endif
