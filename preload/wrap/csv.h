/*
 * The files of csv=: times and message sizes of a step's ranks on one node. The last of these ranks that leaves MPI
 * writes them.
 *
 * A rank leaves MPI when MPI_Finalize has returned, or else when its process exits. A killed rank never leaves. All
 * ranks of the step on the node count themselves in the segment's header. Each time no rank is left in MPI, the last
 * one writes the files of all ranks so far: so a second mpirun of a batch step replaces the first one's files by those
 * of both.
 *
 * Invariant: a file is complete or absent. It is written under a name of its own and renamed. After an error the files
 * are left out, and the header says why. The code allocates and prints nothing, uses no lock and no signal, and keeps
 * errno.
 */
#pragma once

/* Reads which directory the files go to. Called by the constructor. */
void csv_load(void);

/* Counts the process as a rank in MPI. Called when it has claimed a slot and runs. */
void csv_rank_begins(void);

/*
 * Counts the process as one that has left MPI; the last one writes the files. Called after MPI_Finalize and at exit.
 * Does nothing when repeated, or in a child of the process.
 */
void csv_rank_leaves(void);
