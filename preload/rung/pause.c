/*
 * pause: tells the core that this is a spin loop, and polls again. Invariant: tens of nanoseconds, no system call.
 */
#include "preload/rung/rung.h"

void rung_pause_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns;
	(void)thread;
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("isb" ::: "memory");
#else
	__asm__ __volatile__("" ::: "memory");
#endif
}
