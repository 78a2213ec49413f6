/*
 * Cells: blocking MPI functions to which rank 0 comes late. late.c measures them; the other files have the tables.
 *
 * Both ranks play a cell. Only `call` is measured, on rank 1; `prepare` and `release` are on time. Rank 1 receives into
 * `theirs`; the contents depend on nothing but the repetition.
 */
#ifndef TESTS_LATE_LATE_H
#define TESTS_LATE_LATE_H

#include <mpi.h>

#define COUNT 1000
#define TAG   7
#define WORLD MPI_COMM_WORLD

struct cell {
	const char *name;
	void (*prepare)(void); /* NULL: nothing to do */
	void (*call)(void);
	void (*release)(void);
};

extern double mine[2 * COUNT], theirs[2 * COUNT];
extern int rank;

/* Each table ends with a row without a name. */
extern const struct cell cells_p2p[], cells_collective[], cells_other[];

/* Played only if named: it leaves processes behind that would disturb later cells. */
extern const struct cell cell_spawn;

/* Free the cells' objects. */
void collective_clean(void);
void other_clean(void);

/* Rank 0 sends its numbers to rank 1. */
void send_mine(int tag);

/* Runs the rest of rank 1's program in a process that Comm_spawn started. */
void spawn_child(MPI_Comm parents);

#endif
