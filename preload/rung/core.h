/*
 * The core on which a thread runs, and who else of its process runs there: what has to be known before its frequency
 * is changed. Reads small files of /proc and /sys; no allocation, errno may change.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CORE_CPUS 8u

struct core {
	uint32_t count;
	uint32_t cpu[CORE_CPUS]; /* the hardware threads, ascending */
};

/*
 * Finds the calling thread's core. Returns false, with *ret_core zeros, where the thread may run elsewhere too, where
 * another thread of the process is running on that core, or where this cannot be told.
 */
bool core_find_own(struct core *ret_core);

static inline bool core_has(const struct core *core, uint32_t cpu)
{
	for (uint32_t i = 0; i < core->count; i++)
		if (core->cpu[i] == cpu)
			return true;
	return false;
}
