/*
 * Preloaded behind the library under test: rank 0 stays in its first MPI call after MPI_Init until another rank waits
 * for it and has slept (HOLD_S seconds at most). So every program has a wait with sleep, however short its own waits
 * are. It changes nothing but the time. LATE_RUNGS names the rungs that count; if it names none, the wait itself is
 * enough.
 *
 * The library asks for the thread's number in its first call, by syscall().
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "late/absence.h"

#define LOOKS_A_SECOND 1000

typedef long syscall_function(long, long, long, long, long, long, long);

long syscall(long number, long a, long b, long c, long d, long e, long f);

static int is_rank_0(void)
{
	const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]))
			return strcmp(getenv(names[i]), "0") == 0;
	return 0;
}

static void hold(void)
{
	const struct timespec look = {0, 1000000000L / LOOKS_A_SECOND};
	const char *seconds = getenv("HOLD_S");

	if (!seconds || !is_rank_0())
		return;
	for (int i = 0; i < atoi(seconds) * LOOKS_A_SECOND && !absence_is_waited_for(); i++)
		nanosleep(&look, NULL);
}

long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	static syscall_function *next;
	static atomic_int held;

	if (!next)
		next = (syscall_function *)dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_gettid && !held && absence_runs() && atomic_exchange(&held, 1) == 0)
		hold();
	return next(number, a, b, c, d, e, f);
}
