/*
 * Named points at which a test kills the process. Only objects that a test compiles for itself (-DMPIWAIT_POINTS) call
 * point_pass; in all others it is nothing.
 */
#pragma once

#ifdef MPIWAIT_POINTS
void point_pass(const char *name);
#else
#define point_pass(name) ((void)0)
#endif
