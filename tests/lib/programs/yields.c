/*
 * Preloaded behind the library: counts a thread's yields that reach the kernel, which the library's own sched_yield
 * makes by syscall(). Each process prints the sum over its threads at its end.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>

typedef long syscall_function(long, long, long, long, long, long, long);

static __thread long count;
static atomic_long sum;

long yields_count(void);
long syscall(long number, long a, long b, long c, long d, long e, long f);

long yields_count(void)
{
	return count;
}

long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	static syscall_function *next;

	if (!next)
		next = (syscall_function *)dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_sched_yield) {
		count++;
		sum++;
	}
	return next(number, a, b, c, d, e, f);
}

static __attribute__((destructor)) void sum_print(void)
{
	fprintf(stderr, "yields %ld\n", atomic_load(&sum));
}
