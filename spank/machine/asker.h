/*
 * Who asks for a core's frequency: looked up in /proc by a thread's number, which may be forged. Every answer is "no"
 * where it cannot be told. Nothing here waits for a process.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The process of a thread that lives and is that user's in every respect, effective and saved; 0: there is none. */
pid_t asker_process(pid_t thread, uid_t uid);

/* Whether the process lives, and is the task or descends from it. One that has moved away from its parents does not. */
bool asker_is_of_task(pid_t process, pid_t task);

/*
 * Whether that thread of the process may run on these CPUs and on no others (core), while no other thread of the
 * process runs, or waits to run, on one of the CPUs that share the frequency (domain).
 */
bool asker_has_core(pid_t process, pid_t thread, hwloc_const_bitmap_t core, hwloc_const_bitmap_t domain);
