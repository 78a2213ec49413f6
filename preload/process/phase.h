/*
 * The phase of the program that this rank is in, as the program says by MPI_Pcontrol(level, ...). Under profile the
 * waits are summed by phase.
 *
 * MPI gives three levels a meaning for every tool, and leaves all others to the program:
 *
 *     0, 1       profiling off and on: the phase is over, and the rank is in none; so it is by a negative level, with
 *                which IPM ends a region
 *     2          flush: changes nothing
 *     3 and on   the phase of that number begins, and whatever phase there was is over
 *
 * A phase is the process's, whichever thread says so. What may follow the level is not looked at: a region's name, in
 * IPM, is the user's text.
 */
#pragma once

/* At the start, once there is a slot: the rank is in no phase. */
void phase_start(void);

/* The program has said so. Without profile nothing is done. */
void phase_tell(int level);
