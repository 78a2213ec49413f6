/*
 * Repeats the same collective: rank 0 comes to each Allreduce that many milliseconds late, until rank 1 has napped by
 * forecast that often, or the given seconds are over. Prints the number of collectives and of wrong sums.
 *
 *     meetings MILLISECONDS FORECASTS SECONDS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "late/absence.h"

#define WORLD MPI_COMM_WORLD

int main(int argc, char **argv)
{
	struct timespec late = {0, argc > 1 ? atoi(argv[1]) * 1000000L : 0};
	long forecasts = argc > 2 ? atol(argv[2]) : 0;
	time_t until = time(NULL) + (argc > 3 ? atoi(argv[3]) : 0);
	int rank, ranks, sum[2] = {1, 0};
	long meetings = 0, wrong = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_size(WORLD, &ranks);
	while (sum[0] > 0) {
		int given[2] = {rank == 1 && absence_forecasts() < forecasts && time(NULL) < until, rank + 1};

		if (rank == 0)
			nanosleep(&late, NULL);
		MPI_Allreduce(given, sum, 2, MPI_INT, MPI_SUM, WORLD);
		meetings++;
		wrong += sum[1] != ranks * (ranks + 1) / 2;
	}
	if (rank == 0)
		printf("meetings=%ld wrong=%ld\n", meetings, wrong);
	MPI_Finalize();
	return 0;
}
