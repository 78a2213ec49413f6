/* Threads of ours: where they may run. */
#include "spank/base/thread.h"

#include <sched.h>

#include "tests/lib/check.h"

/* Waits until the mutex is free: a thread that has ended has no affinity. */
static void *wait_for_mutex(void *context)
{
	pthread_mutex_lock(context);
	pthread_mutex_unlock(context);
	return NULL;
}

static int cpus_of_thread(cpu_set_t *ret_cpus)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	int result;

	pthread_mutex_lock(&mutex);
	result = thread_start(&thread, wait_for_mutex, &mutex);
	if (result == 0)
		result = pthread_getaffinity_np(thread, sizeof(*ret_cpus), ret_cpus);
	pthread_mutex_unlock(&mutex);
	if (result == 0)
		pthread_join(thread, NULL);
	return result;
}

static void threads_run_where_they_are_confined_to(void)
{
	cpu_set_t before, one, now;
	size_t cpu = 0;

	CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	CHECK(cpus_of_thread(&now) == 0 && CPU_EQUAL(&now, &before));
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	thread_confine(&one, sizeof(one));
	CHECK(cpus_of_thread(&now) == 0 && CPU_EQUAL(&now, &one));
	CHECK(sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &before));
	/* CPUs that the kernel does not let us have: the thread is started all the same */
	CPU_ZERO(&one);
	CPU_SET(CPU_SETSIZE - 1, &one);
	thread_confine(&one, sizeof(one));
	CHECK(cpus_of_thread(&now) == 0 && CPU_EQUAL(&now, &before));
}

int main(void)
{
	threads_run_where_they_are_confined_to();
	return CHECK_RESULT;
}
