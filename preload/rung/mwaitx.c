/*
 * mwaitx: sleeps in C1 for a number of TSC ticks, by MWAITX. Invariant: no system call, and the timer is always on and
 * not zero, since zero means to wait forever.
 *
 * MWAITX needs a monitored address. It lies in a cache line that nobody writes, as in the kernel's own delay loop; 128
 * bytes, because processors fetch lines in pairs. A build for another processor than x86-64 lacks MWAITX: its probe
 * returns false, and nobody calls the doze.
 */
#include "preload/rung/rung.h"

#if MPIWAIT_HAS_MWAITX
#include <cpuid.h>
#include <x86intrin.h>

#include "preload/process/clock.h"

#define LEAF_80000001_ECX_MONITORX (1u << 29)
#define TIMER                      2u /* ECX[1]: EBX holds the ticks, relative, 32 bits */
#define HINT_C1                    0u /* EAX[7:4] is the number of the C-state, less 1 */

static char unwritten[128] __attribute__((aligned(128)));

bool rung_mwaitx_probe(const struct config *config)
{
	unsigned eax, ebx, ecx, edx;

	(void)config;
	return clock_is_tsc() && __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) && ecx & LEAF_80000001_ECX_MONITORX;
}

__attribute__((target("mwaitx"))) void rung_mwaitx_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	uint64_t ticks = clock_ticks_of(ask_ns);

	(void)thread;
	if (ticks == 0)
		return;
	_mm_monitorx(unwritten, 0, 0);
	_mm_mwaitx(TIMER, HINT_C1, ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX);
}

#else

bool rung_mwaitx_probe(const struct config *config)
{
	(void)config;
	return false;
}

void rung_mwaitx_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns;
	(void)thread;
}
#endif
