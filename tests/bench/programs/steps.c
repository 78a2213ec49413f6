/*
 * Plays unequal work: in every step the ranks compute and meet in Allreduce. One of them computes for the whole step,
 * the others for IMBALANCE per cent less.
 *
 *     steps IMBALANCE STEP_US:COUNT[:WHO]...
 *
 * WHO is the slow rank: turn (each in turn, the default), fixed (rank 0), third (rank 0 in every third step, rank 1 in
 * the others). Each argument has a communicator of its own: nothing learned from one applies to the next.
 *
 * Rank 0 prints per argument "steps STEP_US COUNT RANKS wall_s cpu_s compute_s WHO": the loop's wall time, the CPU time
 * of all ranks in it, and how much of that was work.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define WORLD MPI_COMM_WORLD

static int rank, size;
static MPI_Comm comm;

/* Computes by the thread's CPU clock, whatever else shares the core. Returns the time taken. */
static double compute(double duration_s)
{
	double began = seconds(CLOCK_THREAD_CPUTIME_ID), now = began;

	while (now - began < duration_s)
		now = seconds(CLOCK_THREAD_CPUTIME_ID);
	return now - began;
}

static int slow_in_turn(int step)
{
	return step % size;
}

static int slow_fixed(int step)
{
	(void)step;
	return 0;
}

static int slow_third(int step)
{
	return step % 3 == 0 ? 0 : 1 % size;
}

static const struct who {
	const char *name;
	int (*slow)(int step);
} whos[] = {{"turn", slow_in_turn}, {"fixed", slow_fixed}, {"third", slow_third}};

static const struct who *who_find(const char *name)
{
	for (size_t i = 0; i < sizeof(whos) / sizeof(whos[0]); i++)
		if (name && strcmp(whos[i].name, name) == 0)
			return &whos[i];
	return &whos[0];
}

static void play(double imbalance, double step_s, int count, const struct who *who)
{
	double began, one = 1, sum = 0, mine[2] = {0}, all[2] = {0};

	MPI_Comm_dup(WORLD, &comm);
	MPI_Barrier(comm);
	began = seconds(CLOCK_MONOTONIC);
	mine[0] = -seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < count; i++) {
		mine[1] += compute(who->slow(i) == rank ? step_s : step_s * (1 - imbalance));
		MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
	}
	mine[0] += seconds(CLOCK_PROCESS_CPUTIME_ID);
	began = seconds(CLOCK_MONOTONIC) - began;
	MPI_Reduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, 0, WORLD);
	if (rank == 0) {
		printf("steps %g %d %d %.6f %.6f %.6f %s\n", step_s * 1e6, count, size, began, all[0], all[1],
		       who->name);
		fflush(stdout);
	}
	MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
	double imbalance = argc > 1 ? atof(argv[1]) / 100 : 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_size(WORLD, &size);
	for (int i = 2; i < argc; i++) {
		const char *colon = strchr(argv[i], ':'), *second = colon ? strchr(colon + 1, ':') : NULL;

		play(imbalance, atof(argv[i]) * 1e-6, colon ? atoi(colon + 1) : 100,
		     who_find(second ? second + 1 : NULL));
	}
	MPI_Finalize();
	return 0;
}
