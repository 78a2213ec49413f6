/*
 * What this node's processor can do for a rank that waits: the wait instructions, and a TSC that is fit to be the
 * clock.
 *
 * The program's half opens no files, so root looks for it and hands the answers on in MPI_WAIT_CONFIG.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu {
	bool waitpkg;           /* TPAUSE, by CPUID */
	bool mwaitx;            /* MONITORX and MWAITX, by CPUID */
	uint64_t tsc_khz;       /* 0: the TSC is not fit to be the clock, or nothing here needs it */
	uint64_t umwait_max_ns; /* the kernel's limit for TPAUSE, rounded down; 0: none */
	bool umwait_c02;        /* the kernel allows C0.2 */
	bool cpufreq;           /* the kernel shows files for the CPUs' frequencies */
};

/*
 * Fills *ret_cpu. The TSC is fit where CPUID says that it is invariant and the kernel itself uses it as clocksource.
 * Its frequency is measured against the kernel's raw clock, which takes 4 ms and is done on nodes with one of the
 * instructions only. CPUID's own figures are not asked: they are missing on AMD, nominal on some Intel processors, and
 * not the guest's where a hypervisor scales the TSC. The error is at most 500 ppm (usually ten): a measurement that
 * was disturbed more is repeated, and after three the TSC counts as unfit.
 *
 * Where the kernel shows no limits (no umwait_control), its default limit is assumed, and that C0.2 is not allowed.
 */
void cpu_probe(struct cpu *ret_cpu);
