/*
 * umwait: sleeps in C0.1 or C0.2 until a TSC deadline, by TPAUSE. Invariant: no system call, and never longer than the
 * operating system's limit, so that the instruction ends at its deadline or at an interrupt.
 *
 * UMONITOR and UMWAIT are not used: no single address tells a waiting rank that its message is there. MPI libraries
 * have one queue per peer or transport, and the waiting thread's own polls complete requests. Also, on the CPUs in
 * Intel's MONITOR guidance (826393) many UMONITORs slow all cores down.
 */
#include "preload/rung/rung.h"

#if MPIWAIT_HAS_WAITPKG
#include <cpuid.h>
#include <immintrin.h>

#include "preload/process/clock.h"

#define LEAF_7_ECX_WAITPKG (1u << 5)
#define C01                1u
#define C02                0u

/* Leaving C0.2 takes about half a microsecond longer than C0.1 (Sapphire Rapids): not worth it for short dozes. */
#define C02_FROM_NS 2000

static uint64_t most_ns;
static bool allows_c02;

bool rung_waitpkg_probe(const struct config *config)
{
	unsigned eax, ebx, ecx, edx;

	if (!clock_is_tsc() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ecx & LEAF_7_ECX_WAITPKG))
		return false;
	most_ns = config->umwait_max_ns;
	allows_c02 = config->umwait_c02;
	return true;
}

uint64_t rung_waitpkg_most(void)
{
	return most_ns;
}

__attribute__((target("waitpkg"))) void rung_waitpkg_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)thread;
	if (most_ns != 0 && ask_ns > most_ns)
		ask_ns = most_ns;
	_tpause(allows_c02 && ask_ns >= C02_FROM_NS ? C02 : C01, clock_ticks() + clock_ticks_of(ask_ns));
}

#else

bool rung_waitpkg_probe(const struct config *config)
{
	(void)config;
	return false;
}

uint64_t rung_waitpkg_most(void)
{
	return 0;
}

void rung_waitpkg_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns;
	(void)thread;
}
#endif
