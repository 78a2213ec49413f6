/*
 * Rank 0 comes N milliseconds late to one blocking call after the other; rank 1 waits in it meanwhile, and prints for
 * each the share of CPU that every repetition took its thread ("-": it did not wait), and what the call gave.
 * MPI_Finalize is the last.
 *
 *     late [milliseconds [repetitions [cell...]]]
 */
#include "late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPETITIONS 20
#define WARM_UP     10 /* MPICH takes other ways through its collectives after the first few */

double mine[2 * COUNT], theirs[2 * COUNT];
int rank;

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void be_late(int milliseconds)
{
	struct timespec late = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

	if (rank == 0)
		nanosleep(&late, NULL);
}

void send_mine(int tag)
{
	MPI_Send(mine, COUNT, MPI_DOUBLE, 1, tag, WORLD);
}

/* Negative: the call was over long before rank 0 came. */
static double share_of(void (*call)(void), int milliseconds)
{
	double cpu = seconds(CLOCK_THREAD_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);

	call();
	cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	wall = seconds(CLOCK_MONOTONIC) - wall;
	return wall > milliseconds * 0.8e-3 ? cpu / wall : -1;
}

static double share_once(const struct cell *cell, int milliseconds, int repetition)
{
	double share;

	for (int i = 0; i < 2 * COUNT; i++)
		mine[i] = (double)(i + repetition + 1) / (7.0 + rank);
	if (cell->prepare)
		cell->prepare();
	MPI_Barrier(WORLD);
	be_late(milliseconds);
	share = share_of(cell->call, milliseconds);
	if (cell->release)
		cell->release();
	return share;
}

static void print_row(const char *name, const double *shares, int count, double sum)
{
	printf("%s ", name);
	for (int i = 0; i < count; i++)
		if (shares[i] < 0)
			printf("%s-", i ? "," : "");
		else
			printf("%s%.4f", i ? "," : "", shares[i]);
	printf(" %a\n", sum);
	fflush(stdout);
}

static void measure(const struct cell *cell, int milliseconds, int repetitions)
{
	double shares[REPETITIONS], sum = 0;

	memset(theirs, 0, sizeof(theirs));
	for (int i = 0; i < repetitions; i++) {
		shares[i] = share_once(cell, milliseconds, i);
		for (int j = 0; j < 2 * COUNT; j++)
			sum += theirs[j] * (double)(j + 1);
	}
	if (rank == 1)
		print_row(cell->name, shares, repetitions, sum);
}

static int is_wanted(const char *name, int count, char **names)
{
	for (int i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return 1;
	return 0;
}

static void warm_up(void)
{
	for (int i = 0; i < WARM_UP; i++) {
		MPI_Barrier(WORLD);
		MPI_Bcast(theirs, COUNT, MPI_DOUBLE, 0, WORLD);
		MPI_Allreduce(mine, theirs, COUNT, MPI_DOUBLE, MPI_SUM, WORLD);
	}
}

static void finalize(void)
{
	MPI_Finalize();
}

int main(int argc, char **argv)
{
	const struct cell *const tables[] = {cells_p2p, cells_collective, cells_other};
	int milliseconds = argc > 1 ? atoi(argv[1]) : 50;
	int repetitions = argc > 2 ? atoi(argv[2]) : 2;
	double share;
	MPI_Comm parents;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_get_parent(&parents);
	if (parents != MPI_COMM_NULL)
		spawn_child(parents);
	warm_up();
	repetitions = repetitions < REPETITIONS ? repetitions : REPETITIONS;
	for (int i = 0; i < 3; i++)
		for (const struct cell *cell = tables[i]; cell->name; cell++)
			if (argc <= 3 || is_wanted(cell->name, argc - 3, argv + 3))
				measure(cell, milliseconds, repetitions);
	if (argc > 3 && is_wanted(cell_spawn.name, argc - 3, argv + 3))
		measure(&cell_spawn, milliseconds, repetitions);
	collective_clean();
	other_clean();
	MPI_Barrier(WORLD);
	be_late(milliseconds);
	share = share_of(finalize, milliseconds);
	if (rank == 1)
		print_row("Finalize", &share, 1, 0);
	return 0;
}
