/*
 * One blocking MPI function after the other, to which rank 0 comes late: what late.c measures, and what the tables of
 * the other files give it.
 *
 * A cell is played by both ranks. Only `call` is measured, on rank 1; `prepare` and `release` are on time. What rank 1
 * receives goes to `theirs`, and depends on nothing but the repetition.
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

/* Each ends with a row without a name. */
extern const struct cell cells_p2p[], cells_collective[], cells_other[];

/* Only when asked for by name: leaves processes behind that a later cell should not meet. */
extern const struct cell cell_spawn;

/* Free what the cells keep. */
void collective_clean(void);
void other_clean(void);

/* Rank 0 sends its numbers to rank 1. */
void send_mine(int tag);

/* The rest of rank 1's program when Comm_spawn started it. */
void spawn_child(MPI_Comm parents);

#endif
