#include "spank/base/thread.h"

#include <signal.h>

#define STACK_BYTES (512 * 1024)

/* The thread inherits the mask. */
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
	if (result == 0)
		*ret_thread = thread;
	return -result;
}
