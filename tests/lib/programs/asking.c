/*
 * Both ranks exchange messages that need the other's progress (rendezvous), and wait for them in loops of their own:
 *
 *     asking ROUNDS BYTES
 *
 * The ranks take turns in coming five milliseconds late to an exchange. Each prints the number of rounds that arrived
 * intact.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, bytes;

static int exchange(char *mine, char *theirs, int round)
{
	MPI_Request requests[2];
	int flag = 0, good = 1;

	memset(mine, round + rank, (size_t)bytes);
	MPI_Irecv(theirs, bytes, MPI_BYTE, 1 - rank, 7, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(mine, bytes, MPI_BYTE, 1 - rank, 7, MPI_COMM_WORLD, &requests[1]);
	while (!flag)
		MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
	for (int i = 0; i < bytes; i++)
		good &= theirs[i] == (char)(round + 1 - rank);
	return good;
}

int main(int argc, char **argv)
{
	struct timespec away = {0, 5000000};
	int rounds = argc > 2 ? atoi(argv[1]) : 0, good = 0;
	char *mine, *theirs;

	bytes = argc > 2 ? atoi(argv[2]) : 0;
	mine = malloc((size_t)bytes + 1);
	theirs = malloc((size_t)bytes + 1);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int round = 0; round < rounds; round++) {
		if (round % 2 == rank)
			nanosleep(&away, NULL);
		good += exchange(mine, theirs, round);
	}
	printf("%d good=%d\n", rank, good);
	MPI_Finalize();
	free(mine);
	free(theirs);
	return 0;
}
