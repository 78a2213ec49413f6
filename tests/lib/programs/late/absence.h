/*
 * Rank 0's absence from a call in which rank 1 waits for it. It lasts until a condition holds, so that a busy machine
 * makes it longer and changes nothing else.
 *
 * Both ranks map one page in LATE_FOLDER. Rank 0 is absent from the moment when rank 1 enters the call until
 *
 *     n  rank 1 has slept LATE_SLEEPS times, in the rungs whose bits LATE_RUNGS has (hexadecimal), or
 *     s  rank 1 was asleep in three checks a millisecond apart, in one and the same sleep (with LATE_ASLEEP, and in
 *        MPI_Finalize), or
 *     r  rank 1 has left the call already: it does not wait for rank 0, or
 *     p  rank 1 has said that the absence may end, or
 *     t  the given time is over: 50 ms in the calls that LATE_SPINS names, in all after one of the others took it all.
 *
 * In MPI_Finalize, where the runtime may sleep by itself, each voluntary context switch of rank 1's thread counts as a
 * sleep. LATE_SEGMENT is the path of the stats segment. Without the variables only the time counts.
 */
#ifndef TESTS_LATE_ABSENCE_H
#define TESTS_LATE_ABSENCE_H

/* Rank 0 stays away. Called before its part of the call of that name. */
void absence_stay(int milliseconds, const char *name);

/*
 * Rank 1 calls these around the call. absence_leave returns the letter of the reason why the absence ended. It writes
 * how often rank 1 slept in the call; in a call that polls, yields count too.
 */
void absence_enter(const char *name);
char absence_leave(long *ret_sleeps);

/* Returns how often rank 1 has slept since rank 0 came. Called by rank 1 after the call. */
long absence_rests_since(void);

/* Rank 1 says during the call that rank 0 may come. */
void absence_say(void);

/* Returns how often this thread's yields have reached the kernel so far: 0 unless yields.c is preloaded. */
long absence_yields(void);

/* Returns how often that thread of rank 1, given by its lane of the segment, has slept so far. */
long absence_sleeps(int lane);

/* Returns true if MPI_Init of this process has returned, by its slot of the segment. */
int absence_runs(void);

/* Returns true if this process could not nap under the runtime's lock, by its slot of the segment. */
int absence_is_locked(void);

/* Returns true if a rank other than 0 has slept in a rung of LATE_RUNGS; without rungs, if one waits. */
int absence_is_waited_for(void);

/* Returns how often a message has ended a sleep of the first thread of this process. */
long absence_wakes(void);

/* Returns how often the first thread of this process has napped by forecast. */
long absence_forecasts(void);

#endif
