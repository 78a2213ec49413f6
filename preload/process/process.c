/* The state of the process. Invariant: process.h. */
#include "preload/process/process.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static struct process_guard guard_inert;

struct process_guard *process_guard = &guard_inert;
struct process process;

bool process_guard_make(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	if (madvise(memory, page, MADV_WIPEONFORK) < 0) {
		munmap(memory, page);
		return false;
	}
	process_guard = memory;
	return true;
}

void process_flag(uint32_t flag)
{
	__atomic_fetch_or(&process.slot->flags, flag, __ATOMIC_RELAXED);
}

void process_event_end(void)
{
	uint32_t before = __atomic_fetch_and(&process.policy.rungs, ~(1u << MPIWAIT_RUNG_EVENT), __ATOMIC_RELAXED);

	if (before & 1u << MPIWAIT_RUNG_EVENT)
		process_flag(MPIWAIT_FLAG_NO_EVENT);
}

void process_hook(uint32_t hook)
{
	__atomic_fetch_or(&process.slot->hooks, hook, __ATOMIC_RELAXED);
}
