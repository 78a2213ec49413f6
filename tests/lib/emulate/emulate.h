/*
 * Emulation of the wait instructions, for tests on processors that lack or hide them. Preloaded into a program:
 *
 *     EMULATE=waitpkg,monitorx       what CPUID reports (either, both, "none"); "@FILE": read from the file
 *     EMULATE_SITES=NAME:HEX,HEX;... offsets of instructions of that object that would not trap here
 *     EMULATE_MAX_TIME=100000        the operating system's limit for TPAUSE and UMWAIT, in TSC ticks; 0: none
 *     EMULATE_COUNTERS=DIRECTORY     each process that waited leaves DIRECTORY/PID, a struct counters
 *
 * An instruction that the processor refuses arrives here as SIGILL and is executed as its documentation says: the code
 * that runs is the library's own. CPUID never traps without CPUID faulting, which virtual machines rarely have, and
 * hypervisors let MWAITX pass as a no-operation. Therefore UD2 overwrites the first two bytes of such instructions in
 * memory. The library's own code still sets up their operands. With the double of the clock
 * (tests/lib/doubles/virtual_time.c) RDTSC is overwritten too, and all time is that clock's.
 *
 * Invariant: the wait instructions end at their deadline, at the limit, or at a write that changed the monitored line,
 * and at nothing else. (Real ones may also end early.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#define EMULATE_WAITPKG  (1u << 0)
#define EMULATE_MONITORX (1u << 1)

/* Counters of what a process executed. tests/lib/emulate/emulation.py knows their order. */
struct counters {
	uint64_t tpause, umonitor, umwait, monitorx, mwaitx;
	uint64_t c01_ns, c02_ns, c1_ns, c0_ns; /* time in each state, by the kernel's clock */
	uint64_t limited;                      /* waits ended by the operating system's limit */
	uint64_t woken;                        /* waits ended by a write */
	uint64_t longest_ticks;                /* longest time asked of TPAUSE or UMWAIT */
	uint64_t longest_timer_ticks;          /* longest time asked of MWAITX */
};

struct emulation {
	uint32_t features; /* EMULATE_* */
	uint64_t max_time;
};

extern struct emulation emulation;

/*
 * Executes the instruction, given as its unpatched bytes, on these registers. Returns its length, or 0 if it is not an
 * emulated one.
 */
unsigned execute(const uint8_t bytes[8], greg_t *registers);

/* Returns the process's counters, made at the first call. */
struct counters *counters_get(void);

/* Overwrites the instructions that EMULATE_SITES names in the objects loaded now, each once. */
void sites_patch(void);

/* Copies the instruction at that address as it was before patching. */
void sites_read(const uint8_t *address, uint8_t ret_bytes[8]);
