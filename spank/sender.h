/*
 * Who is at the other end of a lease: looked up in /proc by the process id that the kernel vouches for. Every answer is
 * "no" where it cannot be told.
 */
#ifndef MPIWAIT_SPANK_SENDER_H
#define MPIWAIT_SPANK_SENDER_H

#include <hwloc.h>
#include <stdbool.h>
#include <sys/types.h>

/* Whether the process is the task, or descends from it. One that has moved away from its parents does not. */
bool sender_is_of_task(pid_t process, pid_t task);

/* Whether it still exists. */
bool sender_lives(pid_t process);

/*
 * Whether that thread of the process may run on these CPUs and on no others (core), while no other thread of the
 * process runs, or waits to run, on one of the CPUs that share the frequency (domain).
 */
bool sender_has_core(pid_t process, pid_t thread, hwloc_const_bitmap_t core, hwloc_const_bitmap_t domain);

#endif
