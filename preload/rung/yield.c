/*
 * yield: yields the core to other threads that want it. Invariant: it is the raw system call, because the library's own
 * sched_yield would come back here; it cannot fail, so that errno is kept.
 */
#include "preload/rung/rung.h"

#include <sys/syscall.h>
#include <unistd.h>

void rung_yield_doze(uint64_t ask_ns, struct rung_thread *thread)
{
	(void)ask_ns;
	(void)thread;
	syscall(SYS_sched_yield);
}
