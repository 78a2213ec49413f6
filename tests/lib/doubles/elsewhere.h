/* Control of the clock of elsewhere.c, for the test programs that are linked with it. */
#pragma once

#include <stdint.h>

/* Counts of calls since the program began. */
struct elsewhere_calls {
	unsigned opens;
	unsigned reads; /* calls of pread, which reads counters */
};

struct elsewhere_calls elsewhere_calls(void);

/* Sets the clock to that time of day. Returns when the one thread that waits for a time has seen it. Requires
 * MPIWAIT_NOW_MS. */
void elsewhere_advance(uint64_t now_ns);
