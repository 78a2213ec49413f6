/*
 * Rank 0 sends N milliseconds late; rank 1 blocks in Recv meanwhile and prints how much CPU that took its thread.
 *
 *     late_sender [milliseconds [repetitions]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
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

static double receive(double *cpu, double *wall)
{
	double data[DOUBLES], sum = 0, cpu_began = seconds(CLOCK_THREAD_CPUTIME_ID), began = seconds(CLOCK_MONOTONIC);

	MPI_Recv(data, DOUBLES, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	*cpu += seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_began;
	*wall += seconds(CLOCK_MONOTONIC) - began;
	for (int i = 0; i < DOUBLES; i++)
		sum += data[i];
	return sum;
}

int main(int argc, char **argv)
{
	int milliseconds = argc > 1 ? atoi(argv[1]) : 1000;
	int repetitions = argc > 2 ? atoi(argv[2]) : 1;
	double sum = 0, cpu = 0, wall = 0;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < repetitions; i++)
		if (rank == 0)
			send_late(milliseconds, i);
		else if (rank == 1)
			sum += receive(&cpu, &wall);
	if (rank == 1)
		printf("cpu_share=%.4f wall_s=%.6f checksum=%a\n", cpu / wall, wall, sum);
	MPI_Finalize();
	return 0;
}
