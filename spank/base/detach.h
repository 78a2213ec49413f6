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
 * Forks twice, and waits for the first child, so that init becomes the parent of the second, in a session of its own.
 * Returns 1 in that new process, which has to end by _exit, and 0 or -errno in the caller.
 */
int detach_fork(void);

/*
 * Starts a program with this command line and environment, and with default signal handling. Its descriptors 0 to 2 are
 * /dev/null; it has no others but those of `files`. With files NULL, no process waits for the program: it is nicer than
 * jobs, and the kernel kills it before them when memory is short. Returns 0 or -errno; does not wait for the program.
 */
int detach_start(const char *program, char *const command[], char *const environment[],
                 const struct detach_files *files);
