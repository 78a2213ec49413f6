/*
 * Writes a file by MPI_File_iwrite_all, whose request moves only while the rank tests or waits for it: ROMIO has a poll
 * function there. Rank 0 comes late. Then writes nothing by the shared file pointer: ROMIO opens another file for it.
 * `writes FILE`: rounds of each call that waits; prints "RANK ok".
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 6
#define PART   64
#define PARTS  16

static int rank;
static char data[PART * PARTS];

static void wait_all(MPI_Request *requests)
{
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void wait_any(MPI_Request *requests)
{
	int index;

	MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
}

static void wait_some(MPI_Request *requests)
{
	int count, indices[2];

	MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
}

static void wait_one(MPI_Request *requests)
{
	MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	void (*const waits[])(MPI_Request *) = {wait_one, wait_all, wait_any, wait_some};
	MPI_Datatype vector, parts;
	MPI_Request shared;
	MPI_File file;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	memset(data, 'a' + rank, sizeof(data));
	MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
	MPI_Type_vector(PARTS, PART, 2 * PART, MPI_BYTE, &vector);
	MPI_Type_create_resized(vector, 0, 2 * PART * PARTS, &parts);
	MPI_Type_commit(&parts);
	MPI_File_set_view(file, rank * PART, MPI_BYTE, parts, "native", MPI_INFO_NULL);
	for (int i = 0; i < ROUNDS * 4; i++) {
		MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

		if (rank == 0)
			usleep(10000);
		MPI_File_iwrite_all(file, data, sizeof(data), MPI_BYTE, &requests[1]);
		waits[i / ROUNDS](requests);
	}
	MPI_File_iwrite_shared(file, data, 0, MPI_BYTE, &shared);
	MPI_Wait(&shared, MPI_STATUS_IGNORE);
	MPI_Type_free(&parts);
	MPI_File_close(&file);
	printf("%d ok\n", rank);
	MPI_Finalize();
	return 0;
}
