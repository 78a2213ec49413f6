/*
 * The one environment variable that makes the library act: the resolved policy, and where the stats segment is.
 *
 * Root's side writes MPI_WAIT_CONFIG, since spank/policy/policy.c is the only parser of policies. The text is flat, so
 * that the program's half needs no JSON: fields KEY=VALUE, separated by ';', in any order, each at most once, with
 * decimal numbers; "v" comes first. An unknown key, a bad number or another version makes the library inert.
 *
 *     v=1                      format
 *     rungs=pause+nap          rungs that may be used, by the names below; "none": measure only
 *     spin_ns=20000            no budget before this much of a wait (B(w) = 0)
 *     relative_ppm=62500       B(w) = min(relative * w + absolute, max), see budget/ladder.h
 *     absolute_ns=0
 *     max_ns=100000
 *     rma_ns=10000             max inside MPI_Win_lock*, or 1/128 of the wait if that is more; if below max_ns
 *     event_ns=10000000        optional: the longest sleep that a message ends; default 10 ms
 *     slowdown_ppm=10000       optional: part of its time that a rank may be late in all, see budget/account.h. Nothing
 *                              is forecast without it
 *     shared=0|1               the task shares its cores: the spin phase yields; MPICH, Intel MPI: 60 us more budget
 *     ibarrier=0|1             optional: an Ibarrier before some collectives, see wrap/prewait.h
 *     polls=0|1                optional: sleep in the program's own loops that only ask, see wait/loop.h
 *     sites=0|1                optional: tell waits apart by the program's call site, see wait/callsite.h
 *     profile=0|1              read the clock at entry and exit of every call too
 *     tsc_khz=2600000          optional: ticks per millisecond of a TSC that is fit to be the clock
 *     umwait_max_ns=38000      optional: the operating system's limit for TPAUSE, 0: none
 *     umwait_c02=0|1           optional: the operating system allows C0.2
 *     segment=FD:DEV:INO       optional: the inherited memfd, and its device and inode (process/inherited.h)
 *     task=PID                 with segment: the task that was given FD (/proc/PID/fd/FD leads back to it)
 *     notes=ID:KEY             optional: the step's page of notes (notes.h)
 *     pstate_after_ns=5000000  pstate: a wait that has lasted this long goes on at the lowest frequency
 *     cpufreq=lease:FD:DEV:INO pstate, optional: the inherited board of answers (lease.h)
 *     path=0|1                 optional: LD_PRELOAD may name the library by its path from now on, see process/named.h
 *     off=0|1                  optional: the library does nothing in this process, but hands itself on
 *     near=16:4:4-7,12         optional: number of the step's tasks, this task's number, and the tasks on its node:
 *                              profile tells bytes within nodes from those between nodes. Only for task's PID
 *
 * Where ranks choose their policy by their program, the text goes on:
 *
 *     |FIELDS                  for each policy that they choose from, its fields, as policies have them;
 *                              CONFIG_CHOICES_MAX at most
 *     |NAME:NUMBER,...         at last, patterns of programs' names (program_name.h), each with its policy's number:
 *                              1 is the first of those above
 *
 * The first pattern that matches the base name of the process's executable gives the policy. Without a match the fields
 * before the first '|' hold. These also tell what the task was given: segment, task, notes, cpufreq, path and near.
 *
 * Without tsc_khz the clock is the kernel's, and umwait and mwaitx are not used. Without cpufreq or pstate_after_ns
 * pstate is not used.
 */
#pragma once

#define MPIWAIT_CONFIG_VARIABLE "MPI_WAIT_CONFIG"

/*
 * With csv=, this variable has "JOB.STEP.NODE:DIR": the part of the files' names that tells them apart, and their
 * directory (preload/wrap/csv.h).
 */
#define MPIWAIT_CSV_VARIABLE "MPI_WAIT_CSV"
#define MPIWAIT_CSV_MAX      (4096 + 256) /* bytes of its value, with the NUL */

#define CONFIG_NEAR_MAX    128 /* most ranges of tasks in near */
#define CONFIG_CHOICES_MAX 16  /* most policies that ranks choose from */
#define CONFIG_PROGRAM_MAX 64  /* bytes of a pattern of programs' names, a NUL included */

/*
 * Descriptors that a task is given. Each is open twice in the task: at its number, and if the hard limit allows at a
 * spare number above the usual soft limit of open files, which loops over "all" descriptors do not reach.
 */
#define INHERITED_FIRST 200  /* least number that the plugin gives a descriptor: lower ones are somebody else's */
#define INHERITED_SPARE 1000 /* a descriptor's spare number, less its own */
