/*
 * Makes calls of every kind with known sizes, on three ranks. Prints the expected counts: "RANK CALL BYTES CALLS
 * CLASS", where CLASS is the greatest power of two up to the size of the last call.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size;
static double out[4096], in[4096];
static char lines[4096];

static void expect(const char *call, long bytes, int calls, long last)
{
	long from = 0;
	size_t used = strlen(lines);

	for (long power = 1; power > 0 && power <= last; power *= 2)
		from = power;
	snprintf(lines + used, sizeof(lines) - used, "%d %s %ld %d %ld\n", rank, call, bytes, calls, from);
}

static void point_to_point(void)
{
	int next = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, before = rank > 0 ? rank - 1 : MPI_PROC_NULL;
	MPI_Request requests[2];

	MPI_Irecv(in, 100, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, 10, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	expect("Irecv", rank > 0 ? 800 : 0, 1, rank > 0 ? 800 : 0);
	expect("Isend", rank + 1 < size ? 80 : 0, 1, rank + 1 < size ? 80 : 0);
	MPI_Sendrecv(out, 3, MPI_INT, next, 2, in, 5, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	expect("Sendrecv", rank + 1 < size ? 12 : 20, 1, rank + 1 < size ? 12 : 20);
	MPI_Sendrecv_replace(out, 4, MPI_INT, next, 3, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	expect("Sendrecv_replace", 16, 1, 16);
	MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
	expect("Send", 0, 1, 0);
}

/* Passes nonsense for arguments that only the root reads. */
static void rooted(void)
{
	int counts[3] = {1, 2, 3}, places[3] = {0, 1, 3}, root = rank == 1;
	MPI_Datatype none = root ? MPI_DOUBLE : MPI_DATATYPE_NULL;

	MPI_Bcast(out, 7, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	expect("Bcast", 56, 1, 56);
	MPI_Gather(root ? MPI_IN_PLACE : out, root ? -5 : 4, root ? MPI_DATATYPE_NULL : MPI_DOUBLE, in, root ? 4 : -7,
	           none, 1, MPI_COMM_WORLD);
	expect("Gather", 32, 1, 32);
	MPI_Scatter(out, root ? 4 : -7, none, in, 4, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	expect("Scatter", 32, 1, 32);
	MPI_Gatherv(out, rank + 1, MPI_DOUBLE, root ? in : NULL, root ? counts : NULL, root ? places : NULL, none, 1,
	            MPI_COMM_WORLD);
	expect("Gatherv", 8 * (rank + 1), 1, 8 * (rank + 1));
	MPI_Scatterv(out, root ? counts : NULL, root ? places : NULL, none, in, rank + 1, MPI_DOUBLE, 1,
	             MPI_COMM_WORLD);
	expect("Scatterv", 8 * (rank + 1), 1, 8 * (rank + 1));
	MPI_Reduce(out, in, 6, MPI_DOUBLE, MPI_SUM, 1, MPI_COMM_WORLD);
	expect("Reduce", 48, 1, 48);
}

static void all_to_all(void)
{
	int counts[3] = {1, 2, 3}, places[3] = {0, 1, 3}, mine[3] = {rank + 1, rank + 1, rank + 1};
	int spread[3] = {0, rank + 1, 2 * rank + 2};
	MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT}, pair;

	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 5, MPI_INT, MPI_COMM_WORLD);
	expect("Allgather", 20, 1, 20);
	MPI_Alltoall(out, 2, MPI_INT, in, 2, MPI_INT, MPI_COMM_WORLD);
	expect("Alltoall", 24, 1, 24);
	MPI_Alltoallv(out, counts, places, MPI_INT, in, mine, spread, MPI_INT, MPI_COMM_WORLD);
	expect("Alltoallv", 24, 1, 24);
	MPI_Alltoallw(out, counts, places, types, in, mine, spread, types, MPI_COMM_WORLD);
	expect("Alltoallw", 24, 1, 24);
	MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
	MPI_Type_commit(&pair);
	MPI_Allgatherv(out, rank + 1, pair, in, counts, places, pair, MPI_COMM_WORLD);
	expect("Allgatherv", 16 * (rank + 1), 1, 16 * (rank + 1));
	MPI_Type_free(&pair);
	for (int i = 0; i < 3; i++)
		MPI_Allreduce(out, in, 1 << 4 * i, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	expect("Allreduce", 4 * (1 + 16 + 256), 3, 1024);
	MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	expect("Reduce_scatter", 24, 1, 24);
	MPI_Reduce_scatter_block(out, in, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	expect("Reduce_scatter_block", 36, 1, 36);
	MPI_Scan(out, in, 9, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	expect("Scan", 36, 1, 36);
}

/* Groups of one and two ranks: the root is a rank of the other group, or one of MPI_ROOT and MPI_PROC_NULL. */
static void between_groups(void)
{
	int upper = rank > 0, root = rank == 0 ? 0 : rank == 1 ? MPI_ROOT : MPI_PROC_NULL;
	int to_upper[2] = {2, 3}, to_lower[1] = {4}, from_upper[2] = {4, 4}, places[2] = {0, 8};
	int from_lower[1] = {rank + 1};
	MPI_Comm part, between;
	MPI_Request request;

	MPI_Comm_split(MPI_COMM_WORLD, upper, 0, &part);
	MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, upper ? 0 : 1, 9, &between);
	MPI_Igather(out, 6, rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, in, 6, rank == 1 ? MPI_INT : MPI_DATATYPE_NULL,
	            root, between, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	expect("Igather", rank == 2 ? 0 : 24, 1, rank == 2 ? 0 : 24);
	MPI_Ialltoallv(out, upper ? to_lower : to_upper, places, MPI_INT, in, upper ? from_lower : from_upper, places,
	               MPI_INT, between, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	expect("Ialltoallv", upper ? 16 : 20, 1, upper ? 16 : 20);
}

/*
 * In a ring each rank has two neighbors; in a star the first has two and the others one. In a row the ranks at its ends
 * have MPI_PROC_NULL for one of two.
 */
static void among_neighbors(void)
{
	int period = 1, open = 0, last_edges[3] = {2, 3, 4}, edges[4] = {1, 2, 0, 0};
	int counts[2] = {1, 2}, from[2] = {2, 1}, places[2] = {0, 8};
	int first = rank > 0, last = rank + 1 < size; /* neighbors before and behind the rank in a row */
	MPI_Aint starts[2] = {0, 32};
	MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, others[2] = {MPI_DOUBLE, MPI_INT};
	MPI_Comm ring, row, star;
	MPI_Request request;

	MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 0, &ring);
	MPI_Neighbor_alltoall(out, 5, MPI_INT, in, 5, MPI_INT, ring);
	MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &open, 0, &row);
	MPI_Neighbor_alltoall(out, 5, MPI_INT, in, 5, MPI_INT, row);
	expect("Neighbor_alltoall", 40 + 20 * (first + last), 2, 40);
	MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, in, from, places, MPI_INT, row);
	expect("Neighbor_alltoallv", 4 * first + 8 * last, 1, 4 * first + 8 * last);
	MPI_Neighbor_alltoallw(out, counts, starts, types, in, from, starts, others, row);
	expect("Neighbor_alltoallw", 4 * first + 16 * last, 1, 4 * first + 16 * last);
	MPI_Neighbor_allgather(out, 5, MPI_INT, in, 5, MPI_INT, ring);
	expect("Neighbor_allgather", 20, 1, 20);
	MPI_Graph_create(MPI_COMM_WORLD, size, last_edges, edges, 0, &star);
	MPI_Ineighbor_alltoall(out, 5, MPI_INT, in, 5, MPI_INT, star, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	expect("Ineighbor_alltoall", rank == 0 ? 40 : 20, 1, rank == 0 ? 40 : 20);
}

/* A datatype of 3 GiB, more than an int can tell, by a simple call and by one with a root. One rank moves nothing. */
static void more_than_an_int(void)
{
	const long bytes = 3L << 30;
	MPI_Datatype part, whole;
	MPI_Request request;

	MPI_Type_contiguous(1 << 30, MPI_BYTE, &part);
	MPI_Type_contiguous(3, part, &whole);
	MPI_Type_commit(&whole);
	MPI_Ibcast(out, 1, whole, 0, MPI_COMM_SELF, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	expect("Ibcast", bytes, 1, bytes);
	MPI_Iscatter(out, 1, whole, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_SELF, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	expect("Iscatter", bytes, 1, bytes);
	MPI_Type_free(&part);
	MPI_Type_free(&whole);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 3)
		MPI_Abort(MPI_COMM_WORLD, 2);
	point_to_point();
	rooted();
	all_to_all();
	between_groups();
	among_neighbors();
	more_than_an_int();
	fputs(lines, stdout);
	MPI_Finalize();
	return 0;
}
