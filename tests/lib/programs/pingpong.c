/*
 * Measures ranks that share cores: round trips per second between the first two, or the time of an unbalanced loop of
 * Allreduce in which the ranks take turns in computing that long. Rank 0 prints "rate N" or "wall_s N", and the sum.
 *
 *     pingpong [rounds]
 *     pingpong unbalanced STEPS MICROSECONDS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG   7
#define WORLD MPI_COMM_WORLD

static int rank, size;

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void bounce(int rounds)
{
	double began = seconds(CLOCK_MONOTONIC);
	int word = 0;

	for (int i = 0; i < rounds && rank < 2; i++) {
		if (rank == 1) {
			MPI_Recv(&word, 1, MPI_INT, 0, TAG, WORLD, MPI_STATUS_IGNORE);
			word++;
		}
		MPI_Send(&word, 1, MPI_INT, 1 - rank, TAG, WORLD);
		if (rank == 0)
			MPI_Recv(&word, 1, MPI_INT, 1, TAG, WORLD, MPI_STATUS_IGNORE);
	}
	MPI_Bcast(&word, 1, MPI_INT, 0, WORLD);
	if (rank == 0)
		printf("rate %.0f sum %d\n", rounds / (seconds(CLOCK_MONOTONIC) - began), word);
}

/* Computes by the thread's CPU clock, whatever else shares the core. */
static void compute(double duration_s)
{
	double end = seconds(CLOCK_THREAD_CPUTIME_ID) + duration_s;

	while (seconds(CLOCK_THREAD_CPUTIME_ID) < end)
		continue;
}

static void unbalanced(int steps, double step_s)
{
	double began = seconds(CLOCK_MONOTONIC);
	int one = 1, sum = 0, all = 0;

	for (int i = 0; i < steps; i++) {
		if (i % size == rank)
			compute(step_s);
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, WORLD);
		all += sum;
	}
	if (rank == 0)
		printf("wall_s %.4f sum %d\n", seconds(CLOCK_MONOTONIC) - began, all);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_size(WORLD, &size);
	MPI_Barrier(WORLD);
	if (argc > 3 && strcmp(argv[1], "unbalanced") == 0)
		unbalanced(atoi(argv[2]), atof(argv[3]) * 1e-6);
	else
		bounce(argc > 1 ? atoi(argv[1]) : 10000);
	MPI_Finalize();
	return 0;
}
