/* What elsewhere.c makes of paths and clocks, for the programs of the tests that are linked with it. */
#pragma once

#include <stdint.h>

/* Calls since the program began. */
struct elsewhere_calls {
	unsigned opens;
	unsigned reads; /* pread: a counter is read so */
};

struct elsewhere_calls elsewhere_calls(void);

/* Only where MPIWAIT_NOW_MS is set: it is that time of day, and the one thread that waits for a time has seen it. */
void elsewhere_advance(uint64_t now_ns);
