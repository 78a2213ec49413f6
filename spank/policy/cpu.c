#include "spank/policy/cpu.h"

#include <unistd.h>

#define CPUFREQ "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"

#ifdef __x86_64__
#include <cpuid.h>
#include <fcntl.h>
#include <string.h>
#include <x86intrin.h>

#include "spank/base/files.h"
#include "spank/base/proc.h"

#define CLOCKSOURCE     "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define UMWAIT_CONTROL  "/sys/devices/system/cpu/umwait_control/"
#define UMWAIT_MAX_TIME 100000 /* the kernel's default, in ticks (arch/x86/kernel/cpu/umwait.c) */

#define MEASURE_NS 4000000 /* time between the two readings of a measurement */
#define ATTEMPTS   3       /* measurements before the TSC counts as unfit */
#define READINGS   16      /* readings of which the least disturbed is taken */
#define PPM_MAX    500     /* the most by which a measurement may be wrong */

static bool has_bit(unsigned leaf, char which, unsigned bit)
{
	unsigned eax, ebx, ecx, edx;

	if (!__get_cpuid_count(leaf, 0, &eax, &ebx, &ecx, &edx))
		return false;
	return (which == 'c' ? ecx : edx) >> bit & 1;
}

static bool tsc_is_fit(void)
{
	char name[32];

	return has_bit(0x80000007, 'd', 8) && proc_line_read(AT_FDCWD, CLOCKSOURCE, name, sizeof(name)) > 0 &&
	       strcmp(name, "tsc") == 0;
}

/* One instant by both clocks. */
struct reading {
	uint64_t ns;    /* the kernel's clock */
	uint64_t tsc;   /* middle of the ticks between which the kernel's clock was read */
	uint64_t width; /* number of those ticks */
};

/* Returns the least disturbed of READINGS readings: the one with the smallest width. */
static struct reading reading_take(void)
{
	struct reading best = {.width = UINT64_MAX};

	for (int i = 0; i < READINGS; i++) {
		uint64_t before = __rdtsc(), now_ns = clock_ns(CLOCK_MONOTONIC_RAW), width = __rdtsc() - before;

		if (width < best.width)
			best = (struct reading){now_ns, before + width / 2, width};
	}
	return best;
}

static uint64_t tsc_measure_khz(void)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		struct reading begin = reading_take(), end;
		uint64_t ticks;

		nanosleep(&(struct timespec){0, MEASURE_NS}, NULL);
		end = reading_take();
		ticks = end.tsc - begin.tsc;
		if (end.ns > begin.ns && (begin.width + end.width) / 2 <= ticks / 1000000 * PPM_MAX)
			return (uint64_t)((double)ticks * 1e6 / (double)(end.ns - begin.ns) + 0.5);
	}
	return 0;
}

/* Reads the kernel's limits. A max_time of 0 means no limit (IA32_UMWAIT_CONTROL, Intel's manual). */
static void umwait_limits(struct cpu *cpu)
{
	uint64_t ticks = UMWAIT_MAX_TIME, c02 = 0;

	proc_number_read(AT_FDCWD, UMWAIT_CONTROL "max_time", &ticks);
	proc_number_read(AT_FDCWD, UMWAIT_CONTROL "enable_c02", &c02);
	if (ticks > UINT32_MAX)
		ticks = UMWAIT_MAX_TIME;
	cpu->umwait_c02 = c02 == 1;
	cpu->umwait_max_ns = ticks * 1000000 / cpu->tsc_khz;
	if (ticks && !cpu->umwait_max_ns)
		cpu->umwait_max_ns = 1;
}

void cpu_probe(struct cpu *ret_cpu)
{
	struct cpu cpu = {.waitpkg = has_bit(7, 'c', 5),
	                  .mwaitx = has_bit(0x80000001, 'c', 29),
	                  .cpufreq = access(CPUFREQ, F_OK) == 0};

	if ((cpu.waitpkg || cpu.mwaitx) && tsc_is_fit())
		cpu.tsc_khz = tsc_measure_khz();
	if (cpu.waitpkg && cpu.tsc_khz)
		umwait_limits(&cpu);
	*ret_cpu = cpu;
}

#else

void cpu_probe(struct cpu *ret_cpu)
{
	*ret_cpu = (struct cpu){.cpufreq = access(CPUFREQ, F_OK) == 0};
}
#endif
