/* Descriptors that tasks have from us: inherited, and of memory that they share with slurmstepd. */
#pragma once

/*
 * Numbers that nobody uses: scripts lock files by 9, 99, 200 or 255, tcsh closes the first 256, and programs of many
 * files count up from 3.
 */
#define INHERIT_FROM         731
#define INHERIT_LIBRARY_FROM 761

/*
 * Returns a copy of descriptor, with that number or a higher one, which stays open across exec; or -1 and errno. The
 * user's soft limit of open files may be lower: it is raised for that moment, as far as the hard one allows. Where that
 * one is too low as well, the copy is at the first number from INHERITED_FIRST on. To be called in the task, between
 * fork and exec, and not in slurmstepd: the kernel makes a process with threads wait for some 15 ms where its table of
 * descriptors has to grow.
 */
int inherit_descriptor(int descriptor, int from);

/*
 * Opens a descriptor that inherit_descriptor has returned a second time, at its spare number
 * (preload/contract/config_format.h), if that is free and the hard limit allows.
 */
void inherit_spare(int inherited);

/* Closes that descriptor and all above it: in a child before its exec, by system calls alone. */
void descriptors_close_from(unsigned first);

/* A memfd that can be sealed and that nobody ever executes, close-on-exec. Returns it, or -1 and errno. */
int memory_file(const char *name);
