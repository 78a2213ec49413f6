/*
 * Collectives on MPI_COMM_WORLD, on a ring of neighbours, and between two groups of one rank each.
 */
#include "late.h"

#include <stddef.h>

static MPI_Comm ring = MPI_COMM_NULL, alone = MPI_COMM_NULL, between = MPI_COMM_NULL;

static void barrier_call(void)
{
	MPI_Barrier(WORLD);
}

static void bcast_call(void)
{
	MPI_Bcast(rank == 0 ? mine : theirs, COUNT, MPI_DOUBLE, 0, WORLD);
}

static void allreduce_call(void)
{
	MPI_Allreduce(mine, theirs, COUNT, MPI_DOUBLE, MPI_SUM, WORLD);
}

static void allgather_call(void)
{
	MPI_Allgather(mine, COUNT, MPI_DOUBLE, theirs, COUNT, MPI_DOUBLE, WORLD);
}

static void alltoall_call(void)
{
	MPI_Alltoall(mine, COUNT, MPI_DOUBLE, theirs, COUNT, MPI_DOUBLE, WORLD);
}

static void scan_call(void)
{
	MPI_Scan(mine, theirs, COUNT, MPI_DOUBLE, MPI_SUM, WORLD);
}

static void ring_prepare(void)
{
	const int size = 2, periodic = 1;

	if (ring == MPI_COMM_NULL)
		MPI_Cart_create(WORLD, 1, &size, &periodic, 0, &ring);
}

static void neighbor_allgather_call(void)
{
	MPI_Neighbor_allgather(mine, COUNT, MPI_DOUBLE, theirs, COUNT, MPI_DOUBLE, ring);
}

static void neighbor_alltoall_call(void)
{
	MPI_Neighbor_alltoall(mine, COUNT, MPI_DOUBLE, theirs, COUNT, MPI_DOUBLE, ring);
}

static void alone_prepare(void)
{
	if (alone == MPI_COMM_NULL)
		MPI_Comm_split(WORLD, rank, 0, &alone);
}

static void between_prepare(void)
{
	alone_prepare();
	if (between == MPI_COMM_NULL)
		MPI_Intercomm_create(alone, 0, WORLD, 1 - rank, TAG, &between);
}

static void between_barrier_call(void)
{
	MPI_Barrier(between);
}

static void between_bcast_call(void)
{
	MPI_Bcast(rank == 0 ? mine : theirs, COUNT, MPI_DOUBLE, rank == 0 ? MPI_ROOT : 0, between);
}

static void between_allreduce_call(void)
{
	MPI_Allreduce(mine, theirs, COUNT, MPI_DOUBLE, MPI_SUM, between);
}

static MPI_Comm made;

static void comm_dup_call(void)
{
	MPI_Comm_dup(WORLD, &made);
}

static void comm_split_call(void)
{
	MPI_Comm_split(WORLD, 0, rank, &made);
}

static void intercomm_create_call(void)
{
	MPI_Intercomm_create(alone, 0, WORLD, 1 - rank, TAG, &made);
}

static void made_release(void)
{
	MPI_Comm_free(&made);
}

void collective_clean(void)
{
	if (ring != MPI_COMM_NULL)
		MPI_Comm_free(&ring);
	if (between != MPI_COMM_NULL)
		MPI_Comm_free(&between);
	if (alone != MPI_COMM_NULL)
		MPI_Comm_free(&alone);
}

const struct cell cells_collective[] = {
        {"Barrier", NULL, barrier_call, NULL},
        {"Bcast", NULL, bcast_call, NULL},
        {"Allreduce", NULL, allreduce_call, NULL},
        {"Allgather", NULL, allgather_call, NULL},
        {"Alltoall", NULL, alltoall_call, NULL},
        {"Scan", NULL, scan_call, NULL},
        {"Neighbor_allgather", ring_prepare, neighbor_allgather_call, NULL},
        {"Neighbor_alltoall", ring_prepare, neighbor_alltoall_call, NULL},
        {"Barrier(inter)", between_prepare, between_barrier_call, NULL},
        {"Bcast(inter)", between_prepare, between_bcast_call, NULL},
        {"Allreduce(inter)", between_prepare, between_allreduce_call, NULL},
        {"Comm_dup", NULL, comm_dup_call, made_release},
        {"Comm_split", NULL, comm_split_call, made_release},
        {"Intercomm_create", alone_prepare, intercomm_create_call, made_release},
        {NULL, NULL, NULL, NULL},
};
