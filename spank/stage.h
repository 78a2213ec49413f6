/*
 * A test-only build (meson -Dbreak=STAGE) leaves one stage out, to show that the tests notice. Any other build has none
 * of this: the comparison is with a constant.
 */
#ifndef MPIWAIT_SPANK_STAGE_H
#define MPIWAIT_SPANK_STAGE_H

#include <stdbool.h>
#include <string.h>

static inline bool stage_runs(const char *stage)
{
	return strcmp(MPIWAIT_BREAK, stage) != 0;
}

#endif
