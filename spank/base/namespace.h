/* The mount namespace of slurmd, as seen by a process that slurmd has started in that of a job. */
#pragma once

/*
 * Returns a descriptor, close-on-exec, of the mount namespace of the slurmd that this process descends from. Returns -1
 * if this process is in that namespace itself, or has no ancestor called slurmd that runs as root.
 *
 * Slurm 22.05 to 23.11 run a job's epilog in the namespace that job_container/tmpfs made for the job, if it is still
 * there: slurmd does not wait until the job's last slurmstepd has removed it. What the job left in /dev/shm stays in
 * memory for as long as a process is in it.
 */
int namespace_of_slurmd(void);

/*
 * Enters the mount namespace, and stays in its present one if that fails or the program cannot be executed there. -1:
 * does nothing. Makes only calls that are safe after the fork of a process with threads; a process that has threads
 * itself cannot enter another namespace. The working directory becomes the namespace's root.
 */
void namespace_enter(int namespace, const char *program);
