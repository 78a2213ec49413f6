/*
 * Sends a long message after a long wait: rank 1 calls Allreduce or Send, to which rank 0 comes when rank 1 has slept a
 * while (absence.h). For each repetition rank 1 prints how often it slept before that, and after: while pieces of the
 * message were on their way. At the end it prints the sum of the data.
 *
 *     transfer allreduce|send BYTES REPETITIONS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "late/absence.h"

#define AWAY_MS 30000
#define TAG     7
#define WORLD   MPI_COMM_WORLD

static unsigned char *mine, *theirs;
static int rank;

static void transfer(int sends, int bytes)
{
	if (!sends)
		MPI_Allreduce(mine, theirs, bytes, MPI_BYTE, MPI_BOR, WORLD);
	else if (rank == 1)
		MPI_Send(mine, bytes, MPI_BYTE, 0, TAG, WORLD);
	else
		MPI_Recv(theirs, bytes, MPI_BYTE, 1, TAG, WORLD, MPI_STATUS_IGNORE);
}

static void transfer_after_wait(int sends, int bytes)
{
	long before;
	char end;

	MPI_Barrier(WORLD);
	if (rank == 0) {
		absence_stay(AWAY_MS, "transfer");
		transfer(sends, bytes);
		return;
	}
	absence_enter("transfer");
	transfer(sends, bytes);
	end = absence_leave(&before);
	printf("%c %ld %ld\n", end, before - absence_rests_since(), absence_rests_since());
}

int main(int argc, char **argv)
{
	int sends = argc > 3 && strcmp(argv[1], "send") == 0, bytes = argc > 3 ? atoi(argv[2]) : 0;
	long sum = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	mine = calloc(1, (size_t)bytes);
	theirs = calloc(1, (size_t)bytes);
	for (int i = 0; i < bytes; i++)
		mine[i] = (unsigned char)(i * 7 + rank);
	transfer(sends, bytes);
	for (int i = 0; argc > 3 && i < atoi(argv[3]); i++)
		transfer_after_wait(sends, bytes);
	for (int i = 0; i < bytes; i++)
		sum += theirs[i];
	if (rank == (sends ? 0 : 1))
		printf("sum %ld\n", sum);
	free(theirs);
	free(mine);
	MPI_Finalize();
	return 0;
}
