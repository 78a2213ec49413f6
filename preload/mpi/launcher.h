/*
 * The launcher: which launch this process belongs to, and which number it has there, as its environment says.
 *
 * srun, mpirun and mpiexec tell each process by variables. Each launch is a world of its own: two mpirun in one step,
 * or a program and what it spawns, count from 0 each. Nothing here sends a message or calls MPI.
 *
 * Invariant: only a variable that this family of MPI libraries reads is believed. Slurm tells Open MPI 5 by PMIx and
 * MPICH by PMI, and a library that was told in the other's words runs as a world of one rank.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/contract/stats.h"

struct launcher {
	uint64_t launch; /* the same number in all processes of a launch, on all its nodes; 0: not known */
	int32_t rank;    /* in the launch, -1: not known */
	int32_t size;    /* of the launch, 0: not known */
	uint32_t task;   /* number of Slurm's task that this process is or descends from, + 1; 0: not known */
};

/*
 * Reads the environment. Call it before MPI_Init: Open MPI 4 without a launcher sets the variables of a launch of its
 * own there. has_pmix: the library PMIx is loaded.
 */
void launcher_read(enum mpiwait_family family, bool has_pmix, struct launcher *ret_launcher);
