/* Descriptors that slurmstepd hands to tasks: how they stay open across exec, and memfds that both sides map. */
#pragma once

/*
 * First numbers for inherited descriptors, chosen because no program is known to use them: scripts lock files by 9, 99,
 * 200 or 255, tcsh closes the first 256, and programs with many files count up from 3.
 */
#define INHERIT_FROM         731
#define INHERIT_LIBRARY_FROM 761

/*
 * Returns a copy of descriptor that stays open across exec, or -1 and errno. The copy has the first free number from
 * `from` on. If the soft limit of open files forbids that, the limit is raised to the hard one for the moment. If the
 * hard limit forbids it too, the copy has the first free number from INHERITED_FIRST on.
 *
 * The task calls this between fork and exec. slurmstepd must not: when a process with threads needs a larger table of
 * descriptors, the kernel makes it wait for some 15 ms.
 */
int inherit_descriptor(int descriptor, int from);

/*
 * Duplicates what inherit_descriptor returned to its spare number (preload/contract/config_format.h). Does nothing if
 * that number is in use or above the hard limit.
 */
void inherit_spare(int inherited);

/* Closes every descriptor from `first` on, by system calls alone, so that a forked child may call it before exec. */
void descriptors_close_from(unsigned first);

/* Returns a new memfd, close-on-exec, which can be sealed and is never executed; or -1 and errno. */
int memory_file(const char *name);
