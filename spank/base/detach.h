/*
 * Starts programs in sessions of their own, so that they outlive the caller and no process of Slurm's is their parent:
 * slurmstepd would wait for a child that it did not start. A program that hangs or crashes harms no other process.
 */
#pragma once

/* Descriptors for the program. They stay the caller's. */
struct detach_files {
	int output; /* becomes its standard output */
	int kept;   /* becomes its descriptor 3 */
};

/*
 * Makes a detached process: a grandchild, in a session of its own, whose parent is init as soon as the child between
 * them has ended. Returns 1 in the new process, which has to end by _exit. Returns 0 or -errno in the caller, which has
 * waited for the child.
 */
int detach_fork(void);

/*
 * Starts a program in a detached process, with this command line and environment, and with default signal handling.
 * Its descriptors 0 to 2 are /dev/null, and it has no others, except as `files` says. With files NULL, nobody waits for
 * its output, so jobs come first: the program is nicer than they are, and the kernel kills it before them when memory
 * is short. In a prolog or epilog that slurmd runs in a job's mount namespace, the program runs in slurmd's. Returns 0
 * or -errno. Does not wait for the program; a program that cannot be executed is not reported.
 */
int detach_start(const char *program, char *const command[], char *const environment[],
                 const struct detach_files *files);
