/*
 * Rank 0 comes late to one blocking call after the other, by the given milliseconds or the rules of absence.h. Rank 1
 * waits in it meanwhile. It prints for each call and repetition the CPU share of its thread ("-": the call did not
 * wait), how often the thread slept, and how the absence ended; at the end of the line the call's result. MPI_Finalize
 * is the last call.
 *
 *     late [milliseconds [repetitions [cell...]]]
 */
#include "late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "absence.h"

#define REPETITIONS 500
#define WARM_UP     10 /* MPICH changes its algorithms for collectives after the first few calls */

double mine[2 * COUNT], theirs[2 * COUNT];
int rank;

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One call as rank 1 saw it. */
struct seen {
	double share;
	long sleeps;
	char end;
};

void send_mine(int tag)
{
	MPI_Send(mine, COUNT, MPI_DOUBLE, 1, tag, WORLD);
}

static struct seen call_measure(const char *name, void (*call)(void), int milliseconds)
{
	struct seen seen = {0, 0, 't'};
	double cpu, wall;

	if (rank == 0) {
		absence_stay(milliseconds, name);
		call();
		return seen;
	}
	absence_enter(name);
	cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
	wall = seconds(CLOCK_MONOTONIC);
	call();
	cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	wall = seconds(CLOCK_MONOTONIC) - wall;
	seen.end = absence_leave(&seen.sleeps);
	seen.share = cpu / wall;
	return seen;
}

static struct seen measure_once(const struct cell *cell, int milliseconds, int repetition)
{
	struct seen seen;

	for (int i = 0; i < 2 * COUNT; i++)
		mine[i] = (double)(i + repetition + 1) / (7.0 + rank);
	if (cell->prepare)
		cell->prepare();
	MPI_Barrier(WORLD);
	seen = call_measure(cell->name, cell->call, milliseconds);
	if (cell->release)
		cell->release();
	return seen;
}

static void print_row(const char *name, const struct seen *seen, int count, double sum)
{
	printf("%s ", name);
	for (int i = 0; i < count; i++)
		if (seen[i].end == 'r')
			printf("%s-", i ? "," : "");
		else
			printf("%s%.4f", i ? "," : "", seen[i].share);
	for (int i = 0; i < count; i++)
		printf("%s%ld", i ? "," : " ", seen[i].sleeps);
	printf(" ");
	for (int i = 0; i < count; i++)
		printf("%c", seen[i].end);
	printf(" %a\n", sum);
	fflush(stdout);
}

static void measure(const struct cell *cell, int milliseconds, int repetitions)
{
	static struct seen seen[REPETITIONS];
	double sum = 0;

	memset(theirs, 0, sizeof(theirs));
	for (int i = 0; i < repetitions; i++) {
		seen[i] = measure_once(cell, milliseconds, i);
		for (int j = 0; j < 2 * COUNT; j++)
			sum += theirs[j] * (double)(j + 1);
	}
	if (rank == 1)
		print_row(cell->name, seen, repetitions, sum);
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
	struct seen seen;
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
	seen = call_measure("Finalize", finalize, milliseconds);
	if (rank == 1)
		print_row("Finalize", &seen, 1, 0);
	return 0;
}
