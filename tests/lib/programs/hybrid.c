/*
 * MPI and OpenMP together: rank 0 is late in every round, all threads of the others compute and the others wait.
 *
 *     hybrid funneled|multiple [rounds [milliseconds]]
 *
 * funneled: the first thread alone calls MPI, between parallel regions, for all. multiple: every thread exchanges with
 * the same thread of the next rank, on a communicator of its own; all threads have called MPI before any of them waits.
 * Each rank prints its threads, and a checksum that timing cannot change.
 */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 64

static int rank, size;
static struct timespec late;

static double work(int round, int thread)
{
	double sum = 0;

	for (int i = 1; i < 20000; i++)
		sum += 1.0 / (double)(i + round + thread + rank);
	return sum;
}

static double funneled(int rounds)
{
	double total = 0;

	for (int round = 0; round < rounds; round++) {
		double sum = 0, all = 0, part[THREADS_MAX] = {0};

#pragma omp parallel
		part[omp_get_thread_num()] = work(round, omp_get_thread_num());
		for (int i = 0; i < THREADS_MAX; i++)
			sum += part[i];
		if (rank == 0)
			nanosleep(&late, NULL);
		MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		total += all;
	}
	return total;
}

/* Plays one thread's rounds: sends to the next rank's same thread, receives from the previous rank's. */
static double exchange(MPI_Comm communicator, int thread, int rounds)
{
	double total = 0;

	for (int round = 0; round < rounds; round++) {
		double mine = work(round, thread), theirs = 0;
		MPI_Request request;

		if (rank == 0)
			nanosleep(&late, NULL);
		MPI_Isend(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 3, communicator, &request);
		MPI_Recv(&theirs, 1, MPI_DOUBLE, (rank + size - 1) % size, 3, communicator, MPI_STATUS_IGNORE);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		total += theirs;
	}
	return total;
}

static double multiple(int rounds)
{
	double total = 0, part[THREADS_MAX] = {0};
	MPI_Comm communicator[THREADS_MAX];

#pragma omp parallel
	MPI_Barrier(MPI_COMM_SELF);
	for (int i = 0; i < omp_get_max_threads(); i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &communicator[i]);
#pragma omp parallel
	part[omp_get_thread_num()] = exchange(communicator[omp_get_thread_num()], omp_get_thread_num(), rounds);
	for (int i = 0; i < omp_get_max_threads(); i++) {
		MPI_Comm_free(&communicator[i]);
		total += part[i];
	}
	return total;
}

int main(int argc, char **argv)
{
	int all = argc > 1 && strcmp(argv[1], "multiple") == 0;
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	int milliseconds = argc > 3 ? atoi(argv[3]) : 30;
	int wanted = all ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, provided;
	double total;

	late = (struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L};
	MPI_Init_thread(&argc, &argv, wanted, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (provided < wanted || omp_get_max_threads() > THREADS_MAX)
		MPI_Abort(MPI_COMM_WORLD, 3);
	total = all ? multiple(rounds) : funneled(rounds);
	printf("rank=%d threads=%d checksum=%a\n", rank, omp_get_max_threads(), total);
	MPI_Finalize();
	return 0;
}
