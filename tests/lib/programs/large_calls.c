/*
 * Makes large-count calls, looked up at run time as mpi4py's wheel does. Two ranks. Insignificant arguments are
 * nonsense on purpose. Prints "key value" lines.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS   100
#define NONSENSE ((const MPI_Count *)8)
#define OFF_TOO  ((const MPI_Aint *)8)

extern int MPI_Ialltoallv_c(const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *,
                            const MPI_Aint *, MPI_Datatype, MPI_Comm, MPI_Request *) __attribute__((weak));
extern int MPI_Gatherv_c(const void *, MPI_Count, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *,
                         MPI_Datatype, int, MPI_Comm) __attribute__((weak));
extern int MPI_Gather_c(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, int, MPI_Comm)
        __attribute__((weak));
extern int MPI_Alltoallv_c(const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *,
                           const MPI_Aint *, MPI_Datatype, MPI_Comm) __attribute__((weak));
extern int MPI_Buffer_detach_c(void *, MPI_Count *) __attribute__((weak));

static int rank;
static int out[8], in[8];

/* Starts many requests at a time and ends them in every way that MPI has. */
static void rounds(int count)
{
	MPI_Count counts[2] = {1 + rank, 1 + rank}, theirs[2] = {1, 2};
	MPI_Aint places[2] = {0, 2}, spread[2] = {0, 4};
	MPI_Request requests[4];
	int index, flag;

	for (int i = 0; i < count; i++) {
		for (int j = 0; j < 4; j++)
			MPI_Ialltoallv_c(out, counts, places, MPI_INT, in, theirs, spread, MPI_INT, MPI_COMM_WORLD,
			                 &requests[j]);
		MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
		for (flag = index == 0; !flag;)
			MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
		for (flag = 0; !flag;)
			MPI_Testall(4, requests, &flag, MPI_STATUSES_IGNORE);
	}
}

static void insignificant(void)
{
	MPI_Count counts[2] = {1, 1}, attached;
	MPI_Aint places[2] = {0, 1};
	void *buffer = malloc(5000);

	MPI_Gatherv_c(&rank, 1, MPI_INT, in, rank == 0 ? counts : NONSENSE, rank == 0 ? places : OFF_TOO,
	              rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("gatherv %d\n", in[0] == 0 && in[1] == 1);
	MPI_Gather_c(&rank, 1, MPI_INT, in, rank == 0 ? 1 : INT64_MIN, rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, 0,
	             MPI_COMM_WORLD);
	in[0] = in[1] = rank + 5;
	MPI_Alltoallv_c(MPI_IN_PLACE, NONSENSE, OFF_TOO, MPI_DATATYPE_NULL, in, counts, places, MPI_INT,
	                MPI_COMM_WORLD);
	printf("in_place %d\n", in[0] == 5 && in[1] == 6);
	MPI_Buffer_attach(buffer, 5000);
	attached = -1;
	MPI_Buffer_detach_c(&buffer, &attached);
	printf("detached %d\n", attached == 5000);
	free(buffer);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!MPI_Ialltoallv_c)
		return 2;
	insignificant();
	rounds(ROUNDS);
	MPI_Finalize();
	return 0;
}
