/*
 * yield: gives the core to whoever else wants it. Invariant: the raw system call, because the library's own
 * sched_yield would come back here; it cannot fail, so errno stays.
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
