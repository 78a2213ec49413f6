/*
 * Preloaded: takes from Open MPI the function by which it is told to yield in idle polls, so that it spins in all of
 * them, and the library finds no hook.
 */
#include <stdbool.h>

bool opal_progress_set_yield_when_idle(bool yield);
bool opal_progress_set_yield_when_idle(bool yield)
{
	(void)yield;
	return false;
}
