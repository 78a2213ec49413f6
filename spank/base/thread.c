#include "spank/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

#define STACK_BYTES (512 * 1024)
#define MASK_BYTES  2048 /* 16384 CPUs */

static struct {
	size_t size; /* bytes of the mask; 0: threads may run anywhere */
	_Alignas(unsigned long) unsigned char mask[MASK_BYTES];
} confined;

void thread_confine(const void *mask, size_t size)
{
	if (size <= sizeof(confined.mask))
		memcpy(confined.mask, mask, confined.size = size);
}

/* The thread inherits the signal mask. */
int thread_start(pthread_t *ret_thread, void *(*work)(void *), void *context)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int result;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	result = pthread_create(&thread, &attributes, work, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (result == 0 && confined.size > 0)
		pthread_setaffinity_np(thread, confined.size, (const cpu_set_t *)(const void *)confined.mask);
	if (result == 0)
		*ret_thread = thread;
	return -result;
}

void thread_condition_init(pthread_cond_t *ret_condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(ret_condition, &attributes);
	pthread_condattr_destroy(&attributes);
}
