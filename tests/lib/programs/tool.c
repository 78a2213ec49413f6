/*
 * Another PMPI tool, preloaded before or after the library: counts a few calls; every rank prints the counts at the
 * end.
 */
#include <mpi.h>
#include <stdio.h>

static int sends, receives, reductions, barriers;

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
	sends++;
	return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
	receives++;
	return PMPI_Recv(buffer, count, type, from, tag, comm, status);
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
	return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Allreduce(const void *mine, void *theirs, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	reductions++;
	return PMPI_Allreduce(mine, theirs, count, type, op, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
	barriers++;
	return PMPI_Barrier(comm);
}

int MPI_Finalize(void)
{
	int rank;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	fprintf(stderr, "tool %d Send %d Recv %d Allreduce %d Barrier %d\n", rank, sends, receives, reductions,
	        barriers);
	return PMPI_Finalize();
}
