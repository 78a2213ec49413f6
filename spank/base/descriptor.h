/* Descriptors that tasks have from us: inherited, and of memory that they share with slurmstepd. */
#pragma once

/* Far above what shells and programs use by number. The library's is above the others: scripts lock files by such. */
#define INHERIT_FROM         200
#define INHERIT_LIBRARY_FROM 230

/*
 * Returns a copy of descriptor, with that number or a higher one, which stays open across exec; or -1 and errno. The
 * user's soft limit of open files may be lower: it is raised for that moment, as far as the hard one allows. To be
 * called in the task, between fork and exec, and not in slurmstepd: the kernel makes a process with threads wait for
 * some 15 ms where its table of descriptors has to grow.
 */
int inherit_descriptor(int descriptor, int from);

/* Closes that descriptor and all above it: in a child before its exec, by system calls alone. */
void descriptors_close_from(unsigned first);

/* A memfd that can be sealed and that nobody ever executes, close-on-exec. Returns it, or -1 and errno. */
int memory_file(const char *name);
