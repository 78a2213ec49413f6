/*
 * Two ranks send each other messages of 64 bytes, 9 kB and 200 kB, with barriers between, each a random time late, so
 * that waits end at every moment of going to sleep. Rank 1 prints the longest step, the number of steps, and the number
 * of wrong bytes.
 *
 *     mixed_messages [steps [microseconds [wakes]]]
 *
 * With `wakes` it ends when messages have woken the ranks that often, by the stats segment of LATE_SEGMENT.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "late/absence.h"

#define LONGEST 200000
#define BLOCK   256 /* steps after which the ranks agree whether to go on */

static const int sizes[] = {64, 9000, LONGEST};
static unsigned char data[LONGEST];
static int rank, wrong;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void be_late(int microseconds)
{
	struct timespec late = {0, rand() % (microseconds + 1) * 1000L};

	nanosleep(&late, NULL);
}

static void step(int number, int microseconds)
{
	int size = sizes[number % 3], sender = rand() % 2;

	if (rank == sender) {
		be_late(microseconds);
		memset(data, number & 0xff, (size_t)size);
		MPI_Send(data, size, MPI_BYTE, 1 - rank, number % 1000, MPI_COMM_WORLD);
	} else {
		MPI_Recv(data, size, MPI_BYTE, sender, number % 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < size; i += 61)
			wrong += data[i] != (number & 0xff);
	}
	if (number % 8 == 0 && rank == sender)
		be_late(microseconds);
	if (number % 8 == 0)
		MPI_Barrier(MPI_COMM_WORLD);
}

static int is_enough(long wakes)
{
	long mine = absence_wakes(), sum = 0;

	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	return sum >= wakes;
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 1000, microseconds = argc > 2 ? atoi(argv[2]) : 200;
	long wakes = argc > 3 ? atol(argv[3]) : 0;
	double longest = 0, began, lasted;
	int wrong_sum = 0, i;

	srand(4711);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (i = 0; i < steps; i++) {
		int choice = rand(); /* the same on both ranks, whatever be_late has drawn */

		began = seconds();
		srand((unsigned)choice);
		step(i, microseconds);
		srand((unsigned)choice + 1);
		lasted = seconds() - began;
		longest = lasted > longest ? lasted : longest;
		if (wakes > 0 && i % BLOCK == 0 && is_enough(wakes))
			break;
	}
	MPI_Reduce(&wrong, &wrong_sum, 1, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
	if (rank == 1)
		printf("longest_s %.6f\nsteps %d\nwrong %d\n", longest, i, wrong_sum);
	MPI_Finalize();
	return 0;
}
