/*
 * Run delay: how long a thread was ready to run while others had its core, as the kernel counts it (schedstat in
 * proc(5)).
 */
#pragma once

#include <stdint.h>

/*
 * Returns the calling thread's run delay so far, in nanoseconds; 0: none, or the kernel does not tell. Three system
 * calls, 1.5 us in all (measured). They are raw: libc's are cancellation points, and other preload libraries replace
 * them. errno may change.
 */
uint64_t run_delay_ns(void);
