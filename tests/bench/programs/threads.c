/*
 * Measures OpenMP's threads beside waits. Two ranks. For each wait rank 1 prints the CPU time of its whole process as a
 * share of its threads' cores, and the time that the first parallel region after it took to begin and end. For each gap
 * of serial work it prints the same time of a region after it. All are medians.
 *
 *     threads MILLISECONDS:ROUNDS... gap MICROSECONDS:ROUNDS...
 *
 *     wait 20 0.031 52.1
 *     gap 100 3.4
 */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define WORLD      MPI_COMM_WORLD
#define ROUNDS_MAX 10000

static int rank;
static double shares[ROUNDS_MAX], regions[ROUNDS_MAX];

static double region_us(void)
{
	double began = seconds(CLOCK_MONOTONIC);

#pragma omp parallel
	__asm__ volatile("" ::: "memory");
	return (seconds(CLOCK_MONOTONIC) - began) * 1e6;
}

/* Rank 1 waits in a receive while rank 0 sleeps; both have just left a region. */
static void wait_play(double milliseconds, int rounds)
{
	struct timespec late = {(time_t)(milliseconds / 1e3), (long)(milliseconds * 1e6) % 1000000000};
	int word = 0;

	for (int round = 0; round < rounds; round++) {
		double began, cpu;

		MPI_Barrier(WORLD);
		region_us();
		began = seconds(CLOCK_MONOTONIC);
		cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
		if (rank == 0) {
			nanosleep(&late, NULL);
			MPI_Send(&word, 1, MPI_INT, 1, 0, WORLD);
		} else {
			MPI_Recv(&word, 1, MPI_INT, 0, 0, WORLD, MPI_STATUS_IGNORE);
		}
		shares[round] = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (seconds(CLOCK_MONOTONIC) - began) /
		                omp_get_max_threads();
		regions[round] = region_us();
	}
	if (rank == 1)
		printf("wait %g %.4f %.2f\n", milliseconds, median(shares, rounds), median(regions, rounds));
}

static void gap_play(double microseconds, int rounds)
{
	for (int round = 0; round < rounds && rank == 1; round++) {
		double until = seconds(CLOCK_MONOTONIC) + 1e-6 * microseconds;

		while (seconds(CLOCK_MONOTONIC) < until)
			continue;
		regions[round] = region_us();
	}
	if (rank == 1)
		printf("gap %g %.2f\n", microseconds, median(regions, rounds));
}

int main(int argc, char **argv)
{
	int gaps = 0, provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
	MPI_Comm_rank(WORLD, &rank);
	region_us();
	for (int i = 1; i < argc; i++) {
		double length;
		int rounds;

		if (strcmp(argv[i], "gap") == 0)
			gaps = 1;
		else if (sscanf(argv[i], "%lf:%d", &length, &rounds) != 2 || rounds < 1 || rounds > ROUNDS_MAX)
			MPI_Abort(WORLD, 2);
		else if (gaps)
			gap_play(length, rounds);
		else
			wait_play(length, rounds);
	}
	MPI_Finalize();
	return 0;
}
