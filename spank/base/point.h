/*
 * Where a test may kill us. Only objects that a test compiles itself (-DMPIWAIT_POINTS) have these; everywhere else
 * there is nothing to be found.
 */
#ifndef MPIWAIT_SPANK_BASE_POINT_H
#define MPIWAIT_SPANK_BASE_POINT_H

#ifdef MPIWAIT_POINTS
void point_pass(const char *name);
#else
#define point_pass(name) ((void)0)
#endif

#endif
