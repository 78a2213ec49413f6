/*
 * A program that ends badly: rank 0 stays away for that many milliseconds and then dies by a segmentation fault, while
 * the others wait for it in Barrier. If a signal ends it before that, it just ends.
 *
 *     crash [milliseconds]
 */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	int milliseconds = argc > 1 ? atoi(argv[1]) : 1000;
	struct timespec away = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 0) {
		nanosleep(&away, NULL);
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
