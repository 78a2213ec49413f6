/*
 * Features of this node's processor that a waiting rank uses: the wait instructions, and the TSC as a clock.
 *
 * The preload library opens no files, so slurmstepd finds the features out and hands them on in MPI_WAIT_CONFIG.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpu {
	bool waitpkg;           /* TPAUSE, by CPUID */
	bool mwaitx;            /* MONITORX and MWAITX, by CPUID */
	uint64_t tsc_khz;       /* the TSC's frequency; 0: it is not fit to be a clock, or no instruction needs it */
	uint64_t umwait_max_ns; /* the kernel's limit for one TPAUSE, rounded down; 0: no limit */
	bool umwait_c02;        /* the kernel allows C0.2 */
	bool cpufreq;           /* the kernel has cpufreq files */
};

/*
 * Fills *ret_cpu. The TSC is fit if CPUID says that it is invariant and the kernel uses it as its clocksource. Its
 * frequency is measured against the kernel's raw clock: this takes 4 ms, and is done only if the processor has one of
 * the instructions. CPUID's own figures are not used: they are missing on AMD, nominal on some Intel processors, and
 * not the guest's if a hypervisor scales the TSC. The error is at most 500 ppm, and usually 10: a measurement that was
 * disturbed more is repeated, and after three the TSC counts as unfit.
 *
 * A kernel without umwait_control is taken to have its default limit, and not to allow C0.2.
 */
void cpu_probe(struct cpu *ret_cpu);
