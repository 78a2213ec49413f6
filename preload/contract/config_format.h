/*
 * The one environment variable that makes the library act: the resolved policy and where the stats segment is.
 *
 * MPI_WAIT_CONFIG is written by root's side (spank/policy/policy.c is the only parser of policies) and is flat, so that
 * the program's half needs no JSON. Fields are KEY=VALUE, separated by ';', in any order, each at most once; numbers
 * are decimal; "v" comes first. An unknown key, a bad number or another version makes the library inert.
 *
 *     v=1                      format
 *     rungs=pause+nap          rungs that may be used, by the names below; "none": measure only
 *     spin_ns=20000            no budget before this much of a wait (B(w) = 0)
 *     relative_ppm=62500       B(w) = min(relative * w + absolute, max), see budget/ladder.h
 *     absolute_ns=0
 *     max_ns=100000
 *     rma_ns=10000             max inside MPI_Win_lock*, or 1/64 of the wait if that is more; when below max_ns
 *     event_ns=10000000        optional: the longest sleep from which a message wakes the rank, 10 ms if not given
 *     slowdown_ppm=10000       optional: by so much of its time a rank may be late in all, see budget/account.h.
 *                              Without it nothing is forecast
 *     shared=0|1               the task shares its cores: really yield in the spin phase; MPICH: 60 us more of budget
 *     ibarrier=0|1             optional: an Ibarrier before some collectives, see wrap/prewait.h
 *     polls=0|1                optional: rest in loops of the program's own that only ask, see wait/loop.h
 *     sites=0|1                optional: tell waits apart by where the program called from, see wait/site.h
 *     profile=0|1              read the clock at entry and exit of every call too
 *     tsc_khz=2600000          optional: ticks per millisecond of a TSC that is fit to be the clock
 *     umwait_max_ns=38000      optional: the operating system's limit for TPAUSE, 0: none
 *     umwait_c02=0|1           optional: whether it allows C0.2
 *     segment=FD:DEV:INO       optional: the inherited memfd and what fstat must say of it (process/inherited.h)
 *     task=PID                 with segment: the task that was given FD (/proc/PID/fd/FD is the way back to it)
 *     notes=ID:KEY             optional: the step's page of notes (notes.h)
 *     pstate_after_ns=5000000  pstate: a wait that has lasted this long goes on at the lowest frequency
 *     cpufreq=lease:FD:DEV:INO pstate, optional: the inherited board of answers (lease.h)
 *     path=0|1                 optional: LD_PRELOAD may name the library by its path from now on, see process/named.h
 *     near=16:4:4-7,12         optional: how many tasks the step has, this one's number, and those on its node, so that
 *                              profile tells bytes within the node from those between nodes; for task's PID alone
 *
 * Without tsc_khz the clock is the kernel's, and umwait and mwaitx are not done. Without cpufreq or pstate_after_ns
 * pstate is not done.
 */
#pragma once

#define MPIWAIT_CONFIG_VARIABLE "MPI_WAIT_CONFIG"

/*
 * With csv=, this one has "JOB.STEP.NODE:DIR": the part of the files' names that tells them apart, and their directory
 * (preload/wrap/csv.h).
 */
#define MPIWAIT_CSV_VARIABLE "MPI_WAIT_CSV"
#define MPIWAIT_CSV_MAX      (4096 + 256) /* bytes of its value, the NUL included */

#define CONFIG_NEAR_MAX 128 /* ranges of tasks in near */

/*
 * Descriptors that a task is given. Each one is open twice in the task: at its number, and, where the hard limit
 * allows, at a spare one above the usual soft limit of open files, which loops over "all" descriptors do not reach.
 */
#define INHERITED_FIRST 200  /* the plugin hands descriptors out from here on: a lower one is somebody else's */
#define INHERITED_SPARE 1000 /* the distance of a descriptor's spare number from its own */
