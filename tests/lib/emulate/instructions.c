/*
 * Executes each emulated instruction once in every way that its documentation tells apart, and prints the results as
 * "key value" lines. With the argument "cpu" prints what root's side finds out about the processor.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "spank/policy/cpu.h"

static volatile char line[128] __attribute__((aligned(128)));

static void *write_later(void *argument)
{
	(void)argument;
	usleep(20000);
	line[0]++;
	return NULL;
}

__attribute__((target("waitpkg"))) static void play_tpause(void)
{
	uint64_t begin = __rdtsc();
	unsigned char carry = _tpause(1, begin + 50000);

	printf("tpause_carry %d\ntpause_ticks %llu\n", carry, (unsigned long long)(__rdtsc() - begin));
	begin = __rdtsc();
	carry = _tpause(0, begin + 100000000);
	printf("limited_carry %d\nlimited_ticks %llu\n", carry, (unsigned long long)(__rdtsc() - begin));
	begin = __rdtsc();
	carry = _tpause(0, begin - 1);
	printf("past_carry %d\n", carry);
}

__attribute__((target("waitpkg"))) static void play_umwait(void)
{
	unsigned char carry;

	carry = _umwait(1, __rdtsc() + 50000000);
	printf("unarmed_carry %d\n", carry);
	_umonitor((void *)(uintptr_t)line);
	line[1]++;
	carry = _umwait(1, __rdtsc() + 50000);
	printf("written_carry %d\n", carry);
}

__attribute__((target("mwaitx"))) static void play_mwaitx(void)
{
	pthread_t writer;
	uint64_t begin;

	_mm_monitorx((void *)(uintptr_t)line, 0, 0);
	begin = __rdtsc();
	_mm_mwaitx(2, 0, 60000);
	printf("mwaitx_ticks %llu\n", (unsigned long long)(__rdtsc() - begin));
	_mm_monitorx((void *)(uintptr_t)line, 0, 0);
	begin = __rdtsc();
	_mm_mwaitx(2, 0xf0, 30000);
	printf("c0_ticks %llu\n", (unsigned long long)(__rdtsc() - begin));
	_mm_monitorx((void *)(uintptr_t)line, 0, 0);
	pthread_create(&writer, NULL, write_later, NULL);
	_mm_mwaitx(2, 0, 0);
	printf("zero_ended %d\n", line[0]);
	pthread_join(writer, NULL);
}

static void show_cpu(void)
{
	struct timespec from, to;
	uint64_t begin, end;
	struct cpu cpu;

	cpu_probe(&cpu);
	printf("waitpkg %d\nmwaitx %d\ntsc_khz %llu\n", cpu.waitpkg, cpu.mwaitx, (unsigned long long)cpu.tsc_khz);
	printf("umwait_max_ns %llu\numwait_c02 %d\n", (unsigned long long)cpu.umwait_max_ns, cpu.umwait_c02);
	clock_gettime(CLOCK_MONOTONIC_RAW, &from);
	begin = __rdtsc();
	usleep(500000);
	clock_gettime(CLOCK_MONOTONIC_RAW, &to);
	end = __rdtsc();
	printf("long_khz %.0f\n",
	       (double)(end - begin) * 1e6 /
	               (1e9 * (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec)));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "cpu") == 0) {
		show_cpu();
		return 0;
	}
	play_tpause();
	play_umwait();
	play_mwaitx();
	return 0;
}
