/*
 * Where a test may kill us. Only objects that a test compiles itself (-DMPIWAIT_POINTS) have these; everywhere else
 * there is nothing to be found.
 */
#pragma once

#ifdef MPIWAIT_POINTS
void point_pass(const char *name);
#else
#define point_pass(name) ((void)0)
#endif
