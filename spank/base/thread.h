/*
 * Threads of ours in slurmstepd: small, and no signal of slurmstepd's is ever delivered to one.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>

/*
 * From now on threads run on these CPUs only, so many bytes as sched_setaffinity(2) takes them, as far as the kernel
 * lets them.
 */
void thread_confine(const void *mask, size_t size);

/* Starts work(context); the caller joins *ret_thread. Returns 0 or negative errno, *ret_thread untouched. */
int thread_start(pthread_t *ret_thread, void *(*work)(void *), void *context);

/* A condition whose deadlines are the monotonic clock's. */
void thread_condition_init(pthread_cond_t *ret_condition);
