/*
 * Rank 0 comes N milliseconds late to one blocking call after the other; rank 1 waits in it meanwhile. Rank 1 prints
 * for each call how much CPU the wait took its thread (the best of the repetitions) and what the call gave.
 *
 *     late_calls [milliseconds [repetitions [call...]]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT 1000
#define TAG   7
#define WORLD MPI_COMM_WORLD

static double mine[2 * COUNT], theirs[2 * COUNT];
static int rank;

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void send_to_1(void)
{
	MPI_Send(mine, COUNT, MPI_DOUBLE, 1, TAG, WORLD);
}

static void call_recv(void)
{
	if (rank == 0)
		send_to_1();
	else
		MPI_Recv(theirs, COUNT, MPI_DOUBLE, 0, TAG, WORLD, MPI_STATUS_IGNORE);
}

static void call_ssend(void)
{
	if (rank == 0)
		MPI_Recv(theirs, COUNT, MPI_DOUBLE, 1, TAG, WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Ssend(mine, COUNT, MPI_DOUBLE, 0, TAG, WORLD);
}

static void call_sendrecv(void)
{
	MPI_Sendrecv(mine, COUNT, MPI_DOUBLE, 1 - rank, TAG, theirs, COUNT, MPI_DOUBLE, 1 - rank, TAG, WORLD,
	             MPI_STATUS_IGNORE);
}

static void call_waitall(void)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];

	MPI_Irecv(theirs, COUNT, MPI_DOUBLE, 1 - rank, TAG, WORLD, &requests[0]);
	MPI_Isend(mine, COUNT, MPI_DOUBLE, 1 - rank, TAG, WORLD, &requests[1]);
	MPI_Waitall(2, requests, statuses);
}

static void call_waitany(void)
{
	MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	int index;

	if (rank == 0) {
		send_to_1();
		return;
	}
	MPI_Irecv(theirs, COUNT, MPI_DOUBLE, 0, TAG, WORLD, &requests[1]);
	MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
}

static void call_probe(void)
{
	MPI_Status status;
	int count;

	if (rank == 0) {
		send_to_1();
		return;
	}
	MPI_Probe(0, TAG, WORLD, &status);
	MPI_Get_count(&status, MPI_DOUBLE, &count);
	MPI_Recv(theirs, count, MPI_DOUBLE, 0, TAG, WORLD, MPI_STATUS_IGNORE);
}

static void call_barrier(void)
{
	MPI_Barrier(WORLD);
}

static void call_bcast(void)
{
	MPI_Bcast(rank == 0 ? mine : theirs, COUNT, MPI_DOUBLE, 0, WORLD);
}

static void call_allreduce(void)
{
	MPI_Allreduce(mine, theirs, COUNT, MPI_DOUBLE, MPI_SUM, WORLD);
}

static void call_alltoall(void)
{
	MPI_Alltoall(mine, COUNT, MPI_DOUBLE, theirs, COUNT, MPI_DOUBLE, WORLD);
}

static void call_comm_dup(void)
{
	MPI_Comm twin;

	MPI_Comm_dup(WORLD, &twin);
	MPI_Comm_free(&twin);
}

static const struct {
	const char *name;
	void (*call)(void);
} calls[] = {
        {"Recv", call_recv},         {"Ssend", call_ssend},         {"Sendrecv", call_sendrecv},
        {"Waitall", call_waitall},   {"Waitany", call_waitany},     {"Probe", call_probe},
        {"Barrier", call_barrier},   {"Bcast", call_bcast},         {"Alltoall", call_alltoall},
        {"Comm_dup", call_comm_dup}, {"Allreduce", call_allreduce},
};

static double share_once(void (*call)(void), int milliseconds, int repetition)
{
	struct timespec late = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
	double cpu, wall;

	for (int i = 0; i < 2 * COUNT; i++)
		mine[i] = (double)(i + repetition + 1) / (7.0 + rank);
	MPI_Barrier(WORLD);
	if (rank == 0)
		nanosleep(&late, NULL);
	cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
	wall = seconds(CLOCK_MONOTONIC);
	call();
	cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	return cpu / (seconds(CLOCK_MONOTONIC) - wall);
}

static void measure(const char *name, void (*call)(void), int milliseconds, int repetitions)
{
	double best = 1e9, sum = 0;

	memset(theirs, 0, sizeof(theirs));
	for (int i = 0; i < repetitions; i++) {
		double share = share_once(call, milliseconds, i);

		best = share < best ? share : best;
		for (int j = 0; j < 2 * COUNT; j++)
			sum += theirs[j] * (double)(j + 1);
	}
	if (rank == 1)
		printf("%s %.4f %a\n", name, best, sum);
}

int main(int argc, char **argv)
{
	int milliseconds = argc > 1 ? atoi(argv[1]) : 60;
	int repetitions = argc > 2 ? atoi(argv[2]) : 3;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int wanted = argc <= 3;

		for (int j = 3; j < argc; j++)
			wanted |= strcmp(calls[i].name, argv[j]) == 0;
		if (wanted)
			measure(calls[i].name, calls[i].call, milliseconds, repetitions);
	}
	MPI_Finalize();
	return 0;
}
