/*
 * Rank 0 sends N milliseconds late. Rank 1 blocks in Recv meanwhile, and prints the CPU time of its thread in it and
 * the number of its voluntary context switches.
 *
 *     late_sender [milliseconds [repetitions]]
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define DOUBLES 1000

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void send_late(int milliseconds, int repetition)
{
	struct timespec late = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
	double data[DOUBLES];

	for (int i = 0; i < DOUBLES; i++)
		data[i] = (double)(i + repetition) / 7.0;
	nanosleep(&late, NULL);
	MPI_Send(data, DOUBLES, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD);
}

static long left(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

static double receive(double *cpu, double *wall, long *leaves)
{
	double data[DOUBLES], sum = 0, cpu_began = seconds(CLOCK_THREAD_CPUTIME_ID), began = seconds(CLOCK_MONOTONIC);
	long leaves_before = left();

	MPI_Recv(data, DOUBLES, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	*cpu += seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_began;
	*wall += seconds(CLOCK_MONOTONIC) - began;
	*leaves += left() - leaves_before;
	for (int i = 0; i < DOUBLES; i++)
		sum += data[i];
	return sum;
}

int main(int argc, char **argv)
{
	int milliseconds = argc > 1 ? atoi(argv[1]) : 1000;
	int repetitions = argc > 2 ? atoi(argv[2]) : 1;
	double sum = 0, cpu = 0, wall = 0;
	long leaves = 0;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < repetitions; i++)
		if (rank == 0)
			send_late(milliseconds, i);
		else if (rank == 1)
			sum += receive(&cpu, &wall, &leaves);
	if (rank == 1)
		printf("cpu_share=%.4f left=%ld wall_s=%.6f checksum=%a\n", cpu / wall, leaves, wall, sum);
	MPI_Finalize();
	return 0;
}
