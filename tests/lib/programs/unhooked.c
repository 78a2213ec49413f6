/*
 * Preloaded: hides Open MPI's function that makes it yield in idle polls. Open MPI then spins in all of them, and the
 * library finds no hook.
 */
#include <stdbool.h>

bool opal_progress_set_yield_when_idle(bool yield);
bool opal_progress_set_yield_when_idle(bool yield)
{
	(void)yield;
	return false;
}
