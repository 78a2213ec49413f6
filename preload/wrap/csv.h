/*
 * The files of csv=: the times and message sizes of a step's ranks on one node, written by the last of these ranks that
 * leaves MPI.
 *
 * A rank leaves MPI when MPI_Finalize has returned, or else when its process exits; a killed one never does. All ranks
 * of the step on the node count themselves in the segment's header. Each time no rank is left, the last one writes the
 * files of all ranks so far: so a second mpirun of a batch step replaces the first one's files by those of both.
 *
 * Invariant: a file is whole or not there. It is written under a name of its own and renamed. What cannot be written is
 * left, and the header says why. Nothing is allocated or printed, no lock and no signal is used, and errno is kept.
 */
#pragma once

/* In the constructor: reads where the files are to be. */
void csv_load(void);

/* The process has claimed a slot and runs. */
void csv_rank_begins(void);

/* The process has left MPI, or exits. Repeated it does nothing, as in a child of the process. */
void csv_rank_leaves(void);
