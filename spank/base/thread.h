/* Starts this plugin's threads in slurmstepd. They have small stacks, and block all signals, which are slurmstepd's. */
#pragma once

#include <pthread.h>
#include <stddef.h>

/*
 * Has the threads that are started from now on run on these CPUs only, if the kernel allows it. mask is a CPU set as
 * for sched_setaffinity(2), of `size` bytes; a larger one than 16384 CPUs is ignored.
 */
void thread_confine(const void *mask, size_t size);

/* Starts a thread that runs work(context); the caller joins it. Returns 0, or -errno with *ret_thread untouched. */
int thread_start(pthread_t *ret_thread, void *(*work)(void *), void *context);

/* Initialises a condition whose deadlines are times of CLOCK_MONOTONIC. */
void thread_condition_init(pthread_cond_t *ret_condition);
