/*
 * An MPI program that ends as its argument says, after rank 0 came late to a few barriers:
 *
 *     ends abort | segv | exit | kill | return | finalize | handler
 *
 * "handler" sends itself SIGTERM and leaves by its handler; "return" leaves main without MPI_Finalize.
 */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void leave(int number)
{
	(void)number;
	_exit(7);
}

static void end(const char *how)
{
	if (strcmp(how, "abort") == 0)
		MPI_Abort(MPI_COMM_WORLD, 42);
	if (strcmp(how, "segv") == 0)
		raise(SIGSEGV);
	if (strcmp(how, "exit") == 0)
		exit(3);
	if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	if (strcmp(how, "handler") == 0) {
		signal(SIGTERM, leave);
		raise(SIGTERM);
	}
	if (strcmp(how, "finalize") == 0)
		MPI_Finalize();
}

int main(int argc, char **argv)
{
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < 5; i++) {
		if (rank == 0)
			usleep(20000);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	end(argc > 1 ? argv[1] : "finalize");
	return 0;
}
