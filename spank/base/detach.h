/*
 * Programs of ours that run apart: in a session of their own, of which no process of Slurm's is the parent.
 *
 * slurmstepd waits for children that it does not know, so none is ever its child. A program that hangs, or that
 * crashes, does so alone.
 */
#pragma once

/* Descriptors that the program gets, borrowed from the caller. */
struct detach_files {
	int output; /* as its standard output */
	int kept;   /* as its descriptor 3 */
};

/*
 * Starts a program with that command line and environment, and signals as they are by default. Its descriptors 0 to 2
 * are /dev/null, and there are no others but those of files. With files NULL nobody waits for the program: it lets jobs
 * go first, and is killed first where memory is short. Returns 0 or -errno.
 */
int detach_start(const char *program, char *const command[], char *const environment[],
                 const struct detach_files *files);
