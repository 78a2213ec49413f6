/*
 * The locks of the MPI library: functions of ours in place of those by which it takes them and gives them back.
 *
 * Invariant: only the references of the MPI library itself are changed, at the end of its start, and only those that
 * lead to the pthread_mutex_lock and pthread_mutex_unlock that the process has. Where another tool stands before these,
 * they stay as they are.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

typedef int lock_function(pthread_mutex_t *);

/* What functions of ours stand before, and the one that only tries. */
struct locks {
	lock_function *take, *give, *try;
};

/*
 * *ret_next is written before the first call of ours. Returns whether the library takes and gives its locks by ours
 * from now on. Asks the loader.
 */
bool locks_replace(lock_function *take, lock_function *give, struct locks *ret_next);
