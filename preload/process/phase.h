/*
 * Phase: the program's phase that this rank is in, named by MPI_Pcontrol(level, ...). Under profile, waits are summed
 * by phase.
 *
 * MPI gives three levels a meaning for every tool, and leaves all others to the program:
 *
 *     0, 1       profiling off and on: the phase ends, and the rank is in none. A negative level does the same;
 *                IPM ends regions with it
 *     2          flush: changes nothing
 *     3 and on   the phase with that number begins, and the current one ends
 *
 * The process has one phase, whichever thread names it. Arguments behind the level are ignored: in IPM a region's name,
 * which is the user's text.
 */
#pragma once

/* Starts in no phase. To be called when the process has its slot. */
void phase_start(void);

/* Takes the program's level. Does nothing without profile. */
void phase_tell(int level);
