/*
 * Files in memory that processes of the job share with slurmstepd.
 */
#ifndef MPIWAIT_SPANK_BASE_MEMORY_FILE_H
#define MPIWAIT_SPANK_BASE_MEMORY_FILE_H

/* A memfd that can be sealed and that nobody ever executes, close-on-exec. Returns it, or -1 and errno. */
int memory_file(const char *name);

#endif
