/*
 * The launcher: which launch this process belongs to, and which number it has there, as the environment says.
 *
 * srun, mpirun and mpiexec set variables in each process. Each launch is a world of its own: two mpirun in one step, or
 * a program and the processes that it spawns, count from 0 each. Nothing here sends a message or calls MPI.
 *
 * Invariant: only a variable that this family of MPI libraries reads is believed. Slurm tells Open MPI 5 by PMIx and
 * MPICH by PMI; a library that was told in the other's way runs as a world of one rank.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"

struct launcher {
	uint64_t launch; /* number that all processes of the launch share, on all nodes; 0: not known */
	int32_t rank;    /* rank in the launch, -1: not known */
	int32_t size;    /* number of ranks in the launch, 0: not known */
	uint32_t task;   /* number + 1 of the Slurm task that this process is or descends from; 0: not known */
};

/*
 * Reads the environment. Must be called before MPI_Init: Open MPI 4 without a launcher sets the variables of a launch
 * of its own there. has_pmix: the library PMIx is loaded.
 */
void launcher_read(enum mpiwait_family family, bool has_pmix, struct launcher *ret_launcher);
