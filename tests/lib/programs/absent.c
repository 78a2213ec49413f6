/*
 * Like contrib/unbalanced, but a rank sleeps where that computes: no other load makes it later. Rank 0 prints a line
 * each time that all ranks have met.
 *
 *     absent ITERATIONS MILLISECONDS IMBALANCE
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int iterations = argc > 1 ? atoi(argv[1]) : 1, rank, size, total;
	double milliseconds = argc > 2 ? atof(argv[2]) : 0, imbalance = argc > 3 ? atof(argv[3]) : 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < iterations; i++) {
		usleep((useconds_t)(1000 * milliseconds * (1 + imbalance * rank / (size > 1 ? size - 1 : 1))));
		MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		if (rank == 0) {
			puts("met");
			fflush(stdout);
		}
	}
	MPI_Finalize();
	return 0;
}
