/* After MPI_Init_thread, each rank prints for each variable whether it is set, as its children would see it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
	for (int i = 1; i < argc; i++)
		printf("%s %s\n", argv[i], getenv(argv[i]) ? "is there" : "unset");
	MPI_Finalize();
	return 0;
}
