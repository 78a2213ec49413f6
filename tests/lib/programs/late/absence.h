/*
 * Rank 0's absence from a call in which rank 1 waits for it: until a condition holds, so that a busy machine makes it
 * longer and changes nothing else.
 *
 * Both ranks look at one page in LATE_FOLDER. Rank 0 is absent from the moment at which rank 1 enters the call until
 *
 *     n  rank 1 has rested LATE_RESTS times, by the rungs whose bits LATE_RUNGS has (hexadecimal), or
 *     s  rank 1 was asleep in three looks a millisecond apart, and in one and the same sleep (with LATE_ASLEEP, and in
 *        MPI_Finalize), or
 *     r  rank 1 has left the call already: it does not wait for rank 0, or
 *     p  rank 1 has said that it may end, or
 *     t  the given time is over; 50 ms in the calls that LATE_SPINS names, and once one of the others took all of it.
 *
 * In MPI_Finalize, where the runtime may sleep by itself, every time that rank 1's thread left its core by its own will
 * is a rest. LATE_SEGMENT is the path of the stats segment. Without the variables it is the time alone.
 */
#ifndef TESTS_LATE_ABSENCE_H
#define TESTS_LATE_ABSENCE_H

/* Rank 0, before its part of the call of that name. */
void absence_stay(int milliseconds, const char *name);

/*
 * Rank 1, around the call. Returns how the absence ended, by the letters above, and how often rank 1 rested in it; the
 * yields of a call that polls count too.
 */
void absence_enter(const char *name);
char absence_leave(long *ret_rests);

/* Rank 1, after that: how often it has rested since rank 0 came. */
long absence_rests_since(void);

/* Rank 1, meanwhile: rank 0 may come. */
void absence_say(void);

/* How often this thread's yields have reached the kernel so far: 0 unless yields.c is preloaded. */
long absence_yields(void);

/* How often that thread of rank 1, by its lane of the segment, has rested so far. */
long absence_rests(int lane);

/* Whether MPI_Init of this process has returned, by its slot of the segment. */
int absence_runs(void);

/* Returns true if this process has lacked naps under the runtime's lock, by its slot of the segment. */
int absence_is_locked(void);

/* Whether a rank other than 0 has rested by these rungs; where there are none, whether one waits. */
int absence_is_waited_for(void);

/* How often a message has ended a sleep of the first thread of this process. */
long absence_wakes(void);

/* How often the first thread of this process has napped by forecast. */
long absence_forecasts(void);

#endif
