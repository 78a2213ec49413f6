/*
 * Asker: checks in /proc who asks for a core's frequency, by a thread's number that may be forged. Where /proc does not
 * tell, the answer is the one that grants nothing. No function waits for a process.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Returns the process of a living thread whose real, effective, saved and filesystem user is `uid`; 0: there is none.
 */
pid_t asker_process(pid_t thread, uid_t uid);

/*
 * Returns true if the process lives, and is the task or a descendant of it. A process that was handed to another parent
 * is none.
 */
bool asker_is_of_task(pid_t process, pid_t task);

/*
 * Returns true if the thread may run only on the CPUs `core`, and no other thread of its process runs, or waits to run,
 * on `domain`, the CPUs that share the frequency.
 */
bool asker_has_core(pid_t process, pid_t thread, hwloc_const_bitmap_t core, hwloc_const_bitmap_t domain);
