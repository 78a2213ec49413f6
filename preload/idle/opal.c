/*
 * opal: the hook of Open MPI. Its wait loop calls opal_progress, which calls sched_yield if it found nothing to do and
 * yielding is on. The library has both functions. A yield inside opal_progress is an idle poll; a return of
 * opal_progress without one is progress. Its result is not used: in 4.1 it is void. Any other sched_yield goes to the
 * kernel; the caller's address tells them apart (yield.c).
 *
 * Open MPI 5 can sleep in its idle polls, with threads_pthreads_yield_strategy=nanosleep, where no hook sees them.
 * Other builds leave them to a library of user-level threads. The library switches on nothing in these cases.
 */
#include <stddef.h>

#include "preload/idle/idle.h"
#include "preload/mpi/next.h"
#include "preload/process/process.h"
#include "preload/wait/wait.h"

#define EXPORT __attribute__((visibility("default")))

typedef uintptr_t progress_function(void);

__thread uintptr_t idle_frame __attribute__((tls_model("initial-exec")));

static progress_function *next_progress;

uintptr_t opal_progress(void);

static __attribute__((noinline)) progress_function *progress_find(void)
{
	progress_function *found;

	found = (progress_function *)next_symbol("opal_progress");
	if (!found) {
		next_resolve();
		found = (progress_function *)next_symbol("opal_progress");
	}
	__atomic_store_n(&next_progress, found, __ATOMIC_RELAXED);
	return found;
}

/* Forwards a call before the library acts: nothing is noted yet. */
static __attribute__((noinline)) uintptr_t progress_first(void)
{
	progress_function *next = progress_find();

	return next ? next() : 0;
}

EXPORT uintptr_t opal_progress(void)
{
	progress_function *next = __atomic_load_n(&next_progress, __ATOMIC_RELAXED);
	uintptr_t outer = idle_frame, result;

	if (__builtin_expect(!next, 0))
		return progress_first();
	idle_frame = (uintptr_t)__builtin_frame_address(0);
	result = next();
	if (!(idle_frame & IDLE_FRAME_YIELDED))
		wait_self.progressed = 1;
	idle_frame = outer;
	return result;
}

/* Returns true if idle polls yield, by the value that Open MPI took from its environment, files or command line. */
static bool strategy_is_yield(void)
{
	int (*find)(const char *, int *) = (int (*)(const char *, int *))next_symbol("mca_base_var_find_by_name");
	int (*get)(int, const void *, void *, void *) =
	        (int (*)(int, const void *, void *, void *))next_symbol("mca_base_var_get_value");
	const int *strategy = NULL;
	int variable;

	if (!find || !get || find("threads_pthreads_yield_strategy", &variable) != 0)
		return true;
	return get(variable, &strategy, NULL, NULL) == 0 && strategy && *strategy == 0;
}

/* If yielding was on already, Open MPI runs more ranks than cores: the cores are shared. */
bool idle_opal_switch_on(void)
{
	bool (*set_yield)(bool) = (bool (*)(bool))next_symbol("opal_progress_set_yield_when_idle");

	if (!set_yield || !progress_find())
		return false;
	if (!next_refers((void *)set_yield, "sched_yield") || !strategy_is_yield())
		return false;
	next_text((void *)next_progress, &idle.opal.start, &idle.opal.size);
	next_text((void *)progress_first, &idle.own.start, &idle.own.size);
	if (set_yield(true)) {
		process.config.shared = true;
		process_flag(MPIWAIT_FLAG_SHARED_CORES);
	} else {
		idle.yields_for_us = true;
	}
	return true;
}
