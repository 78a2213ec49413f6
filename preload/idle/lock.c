/*
 * The lock under which a runtime calls its hook: what the MPI library takes it by, in place of pthread_mutex_lock.
 *
 * Who has to wait for one rings for the thread that naps (bell.h). Until a second thread of the process calls MPI, all
 * that is done is to look whether one has. What the first one took before that counts as not held.
 */
#include <errno.h>

#include "preload/idle/idle.h"
#include "preload/mpi/locks.h"
#include "preload/process/bell.h"
#include "preload/process/process.h"
#include "preload/wait/wait.h"

static struct locks next;

static __attribute__((noinline)) int lock_await(pthread_mutex_t *mutex)
{
	int code;

	wait_self.lock.own++;
	bell_want();
	code = next.take(mutex);
	bell_have();
	return code;
}

/* Read at each lock, so not from where other threads write all the time, as beside process.threaded. */
static struct {
	bool several;
} __attribute__((aligned(128))) known;

static bool is_alone(void)
{
	if (__atomic_load_n(&known.several, __ATOMIC_RELAXED))
		return false;
	if (!__atomic_load_n(&process.threaded, __ATOMIC_RELAXED))
		return true;
	__atomic_store_n(&known.several, true, __ATOMIC_RELAXED);
	return false;
}

static bool is_between_polls(const struct wait *wait)
{
	return wait->kind == CALL_WAIT && wait->polls >= WAIT_FREE_POLLS;
}

static int lock_take(pthread_mutex_t *mutex)
{
	int code;

	if (is_alone())
		return next.take(mutex);
	if (__builtin_expect(is_between_polls(&wait_self), 0))
		lock_offer(&wait_self.lock, wait_self.polls, &wait_self.rung);
	code = next.try(mutex);
	if (__builtin_expect(code == EBUSY, 0))
		code = lock_await(mutex);
	wait_self.lock.taken++;
	wait_self.lock.held++;
	return code;
}

static int lock_give(pthread_mutex_t *mutex)
{
	if (!is_alone() && wait_self.lock.held > 0)
		wait_self.lock.held--;
	return next.give(mutex);
}

bool idle_lock_switch_on(void)
{
	return locks_replace(lock_take, lock_give, &next);
}
