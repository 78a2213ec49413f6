/*
 * Executes the instructions by their documentation: Intel SDM volume 2 (CPUID, TPAUSE, UMONITOR, UMWAIT), AMD APM
 * volume 3 (MONITORX, MWAITX); RDTSC too if the clock is virtual.
 */
#include <cpuid.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "tests/lib/doubles/virtual_time.h"
#include "tests/lib/emulate/emulate.h"

#define LINE 64

enum { CARRY = 1 << 0, ARITHMETIC_FLAGS = 1 << 0 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 11 };

static __thread const volatile uint8_t *monitored __attribute__((tls_model("initial-exec")));
static __thread uint8_t before[LINE] __attribute__((tls_model("initial-exec")));

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Returns the TSC; under the virtual clock its time, as the emulated RDTSC does. */
static uint64_t ticks(void)
{
	return virtual_read_ns ? virtual_read_ns() * VIRTUAL_TSC_KHZ / 1000000 : __rdtsc();
}

static void add(uint64_t *counter, uint64_t number)
{
	__atomic_fetch_add(counter, number, __ATOMIC_RELAXED);
}

static void raise_to(uint64_t *counter, uint64_t number)
{
	uint64_t have = __atomic_load_n(counter, __ATOMIC_RELAXED);

	while (have < number &&
	       !__atomic_compare_exchange_n(counter, &have, number, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
}

/* Returns the register of that number in an instruction's encoding. */
static greg_t *register_of(greg_t *registers, unsigned number)
{
	static const uint8_t places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
	                                   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

	return &registers[places[number & 15]];
}

static void arm(uint64_t address)
{
	monitored = (const volatile uint8_t *)(uintptr_t)(address & ~(uint64_t)(LINE - 1));
	for (int i = 0; i < LINE; i++)
		before[i] = monitored[i];
}

static bool was_written(void)
{
	for (int i = 0; i < LINE; i++)
		if (monitored[i] != before[i])
			return true;
	return false;
}

/* Waits until the TSC reaches that value or, if armed, the monitored line changes. Adds the time to *state. */
static void rest(uint64_t deadline, bool watches, uint64_t *state)
{
	uint64_t begin = now_ns();

	while (ticks() < deadline) {
		if (watches && was_written()) {
			add(&counters_get()->woken, 1);
			break;
		}
		if (virtual_sleep && deadline != UINT64_MAX)
			virtual_sleep((deadline - ticks()) * 1000000 / VIRTUAL_TSC_KHZ);
		else
			_mm_pause();
	}
	add(state, now_ns() - begin);
}

static void cpuid(greg_t *registers)
{
	uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX], eax, ebx, ecx, edx;

	__cpuid_count(leaf, subleaf, eax, ebx, ecx, edx);
	if (leaf == 0 && eax < 7)
		eax = 7;
	if (leaf == 7 && subleaf == 0)
		ecx = (ecx & ~(1u << 5)) | (emulation.features & EMULATE_WAITPKG ? 1u << 5 : 0);
	if (leaf == 0x80000001)
		ecx = (ecx & ~(1u << 29)) | (emulation.features & EMULATE_MONITORX ? 1u << 29 : 0);
	registers[REG_RAX] = eax;
	registers[REG_RBX] = ebx;
	registers[REG_RCX] = ecx;
	registers[REG_RDX] = edx;
}

/* Executes TPAUSE and UMWAIT: the deadline in EDX:EAX is absolute, and cut by the operating system's limit, which the
 * carry flag reports. */
static void wait_until(uint32_t control, bool watches, greg_t *registers)
{
	uint64_t deadline = (uint64_t)(uint32_t)registers[REG_RDX] << 32 | (uint32_t)registers[REG_RAX];
	uint64_t begin = ticks(), limit = emulation.max_time ? begin + emulation.max_time : UINT64_MAX;
	struct counters *counters = counters_get();
	bool limited;

	if (control & ~1u)
		raise(SIGSEGV);
	raise_to(&counters->longest_ticks, deadline > begin ? deadline - begin : 0);
	if (!watches || monitored)
		rest(deadline < limit ? deadline : limit, watches, control & 1 ? &counters->c01_ns : &counters->c02_ns);
	limited = limit < deadline && ticks() >= limit;
	add(&counters->limited, limited);
	registers[REG_EFL] &= ~(greg_t)ARITHMETIC_FLAGS;
	registers[REG_EFL] |= limited ? CARRY : 0;
}

/* Executes MWAITX. ECX[1]: EBX is a relative timer, zero for none. EAX[7:4]: the C-state less one, 15 for C0. */
static void mwaitx(greg_t *registers)
{
	uint32_t extensions = (uint32_t)registers[REG_RCX], time = (uint32_t)registers[REG_RBX];
	struct counters *counters = counters_get();
	bool timed = extensions & 2 && time != 0;
	uint64_t deadline = timed ? ticks() + time : UINT64_MAX;

	if (extensions & ~3u)
		raise(SIGSEGV);
	if (timed)
		raise_to(&counters->longest_timer_ticks, time);
	if (monitored)
		rest(deadline, true, (registers[REG_RAX] & 0xf0) == 0xf0 ? &counters->c0_ns : &counters->c1_ns);
	monitored = NULL;
}

/* Executes the group 0F AE /6 with a register; the prefix selects the instruction. */
static bool waitpkg(uint8_t prefix, uint64_t operand, greg_t *registers)
{
	struct counters *counters = counters_get();

	switch (prefix) {
	case 0x66:
		add(&counters->tpause, 1);
		wait_until((uint32_t)operand, false, registers);
		return true;
	case 0xf2:
		add(&counters->umwait, 1);
		wait_until((uint32_t)operand, true, registers);
		monitored = NULL;
		return true;
	case 0xf3:
		add(&counters->umonitor, 1);
		arm(operand);
		return true;
	default:
		return false;
	}
}

unsigned execute(const uint8_t bytes[8], greg_t *registers)
{
	uint8_t rex = (bytes[1] & 0xf0) == 0x40 ? bytes[1] : 0;
	const uint8_t *code = bytes + 1 + (rex != 0);

	if (bytes[0] == 0x0f && bytes[1] == 0xa2) {
		cpuid(registers);
		return 2;
	}
	if (bytes[0] == 0x0f && bytes[1] == 0x31) {
		uint64_t now = ticks();

		registers[REG_RAX] = (uint32_t)now;
		registers[REG_RDX] = (greg_t)(now >> 32);
		return 2;
	}
	if (bytes[0] == 0x0f && bytes[1] == 0x01 && bytes[2] == 0xfa) {
		add(&counters_get()->monitorx, 1);
		arm((uint64_t)registers[REG_RAX]);
		return 3;
	}
	if (bytes[0] == 0x0f && bytes[1] == 0x01 && bytes[2] == 0xfb) {
		add(&counters_get()->mwaitx, 1);
		mwaitx(registers);
		return 3;
	}
	if (code[0] == 0x0f && code[1] == 0xae && (code[2] & 0xf8) == 0xf0 &&
	    waitpkg(bytes[0], (uint64_t)*register_of(registers, (code[2] & 7u) | (rex & 1u) << 3), registers))
		return (unsigned)(code + 3 - bytes);
	return 0;
}
