/*
 * Repeats the same wait: rank 0 comes to each Recv of rank 1 that many milliseconds late, until rank 1 has napped by
 * forecast that often, or the given seconds are over.
 *
 *     repeats MILLISECONDS FORECASTS SECONDS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "late/absence.h"

#define TAG   7
#define WORLD MPI_COMM_WORLD

static int exchange_late(int milliseconds)
{
	struct timespec late = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
	int goes = 1;

	nanosleep(&late, NULL);
	MPI_Send(&goes, 1, MPI_INT, 1, TAG, WORLD);
	MPI_Recv(&goes, 1, MPI_INT, 1, TAG, WORLD, MPI_STATUS_IGNORE);
	return goes;
}

static int exchange_early(long forecasts, time_t until)
{
	int goes;

	MPI_Recv(&goes, 1, MPI_INT, 0, TAG, WORLD, MPI_STATUS_IGNORE);
	goes = absence_forecasts() < forecasts && time(NULL) < until;
	MPI_Send(&goes, 1, MPI_INT, 0, TAG, WORLD);
	return goes;
}

int main(int argc, char **argv)
{
	time_t until = time(NULL) + (argc > 3 ? atoi(argv[3]) : 0);
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	if (argc > 3 && rank == 0)
		while (exchange_late(atoi(argv[1])))
			;
	else if (argc > 3 && rank == 1)
		while (exchange_early(atol(argv[2]), until))
			;
	MPI_Finalize();
	return 0;
}
