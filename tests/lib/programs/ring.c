/*
 * Every rank sends 1000 bytes to each of the next two on MPI_COMM_WORLD, to the next on a copy of it, and then as much
 * to MPI_PROC_NULL.
 */
#include <mpi.h>

#define BYTES 1000

static void pass(int from, int to, MPI_Comm comm)
{
	char out[BYTES] = "", in[BYTES];
	MPI_Request request;

	MPI_Irecv(in, BYTES, MPI_CHAR, from, 0, comm, &request);
	MPI_Send(out, BYTES, MPI_CHAR, to, 0, comm);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	int rank, size;
	MPI_Comm copy;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	for (int next = 1; next <= 2; next++)
		pass((rank - next + size) % size, (rank + next) % size, MPI_COMM_WORLD);
	pass((rank - 1 + size) % size, (rank + 1) % size, copy);
	pass(MPI_PROC_NULL, MPI_PROC_NULL, MPI_COMM_WORLD);
	MPI_Comm_free(&copy);
	MPI_Finalize();
	return 0;
}
