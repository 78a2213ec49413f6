/*
 * Unequal work: in every step the ranks compute and meet in Allreduce. In turn one of them computes for the whole of
 * the step, and the others for that less IMBALANCE per cent.
 *
 *     steps IMBALANCE STEP_US:COUNT...
 *
 * Rank 0 prints per step length: "steps STEP_US COUNT RANKS wall_s cpu_s compute_s": the loop's wall time, the CPU
 * time of all ranks in it, and how much of that was work.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORLD MPI_COMM_WORLD

static int rank, size;

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* By the thread's CPU clock: work that shares its core takes as much of it as any. Returns what it took. */
static double compute(double duration_s)
{
	double began = seconds(CLOCK_THREAD_CPUTIME_ID), now = began;

	while (now - began < duration_s)
		now = seconds(CLOCK_THREAD_CPUTIME_ID);
	return now - began;
}

static void play(double imbalance, double step_s, int count)
{
	double began, one = 1, sum = 0, mine[2] = {0}, all[2] = {0};

	MPI_Barrier(WORLD);
	began = seconds(CLOCK_MONOTONIC);
	mine[0] = -seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < count; i++) {
		mine[1] += compute(i % size == rank ? step_s : step_s * (1 - imbalance));
		MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD);
	}
	mine[0] += seconds(CLOCK_PROCESS_CPUTIME_ID);
	began = seconds(CLOCK_MONOTONIC) - began;
	MPI_Reduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, 0, WORLD);
	if (rank == 0) {
		printf("steps %g %d %d %.6f %.6f %.6f\n", step_s * 1e6, count, size, began, all[0], all[1]);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	double imbalance = argc > 1 ? atof(argv[1]) / 100 : 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_size(WORLD, &size);
	for (int i = 2; i < argc; i++) {
		const char *colon = strchr(argv[i], ':');

		play(imbalance, atof(argv[i]) * 1e-6, colon ? atoi(colon + 1) : 100);
	}
	MPI_Finalize();
	return 0;
}
