/*
 * Point to point: the receiver waits for a message, or the sender for its receiver.
 */
#include "late.h"

#include <stddef.h>

#include "absence.h"

#define POLLS 20000

static MPI_Request requests[2];
static double early[COUNT];

static void take(int tag)
{
	MPI_Recv(theirs, COUNT, MPI_DOUBLE, 0, tag, WORLD, MPI_STATUS_IGNORE);
}

static void recv_call(void)
{
	if (rank == 0)
		send_mine(TAG);
	else
		take(TAG);
}

static void ssend_call(void)
{
	if (rank == 0)
		MPI_Recv(theirs, COUNT, MPI_DOUBLE, 1, TAG, WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Ssend(mine, COUNT, MPI_DOUBLE, 0, TAG, WORLD);
}

static void sendrecv_call(void)
{
	MPI_Sendrecv(mine, COUNT, MPI_DOUBLE, 1 - rank, TAG, theirs, COUNT, MPI_DOUBLE, 1 - rank, TAG, WORLD,
	             MPI_STATUS_IGNORE);
}

static void wait_call(void)
{
	MPI_Request request;

	if (rank == 0) {
		send_mine(TAG);
		return;
	}
	MPI_Irecv(theirs, COUNT, MPI_DOUBLE, 0, TAG, WORLD, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank 1 gets two messages: the first in time, the second late. */
static void two_prepare(void)
{
	if (rank == 0) {
		send_mine(TAG);
		return;
	}
	MPI_Irecv(early, COUNT, MPI_DOUBLE, 0, TAG, WORLD, &requests[0]);
	MPI_Irecv(theirs, COUNT, MPI_DOUBLE, 0, TAG + 1, WORLD, &requests[1]);
}

static void waitall_call(void)
{
	MPI_Status statuses[2];

	if (rank == 0)
		send_mine(TAG + 1);
	else
		MPI_Waitall(2, requests, statuses);
}

/* Completes the first message, so that the measured call waits for the late one alone. */
static void one_prepare(void)
{
	two_prepare();
	if (rank == 1)
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void waitany_call(void)
{
	int index;

	if (rank == 0)
		send_mine(TAG + 1);
	else
		MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
}

static void waitsome_call(void)
{
	MPI_Status statuses[2];
	int count, indices[2];

	if (rank == 0)
		send_mine(TAG + 1);
	else
		MPI_Waitsome(2, requests, &count, indices, statuses);
}

static void probe_call(void)
{
	MPI_Status status;

	if (rank == 0)
		send_mine(TAG);
	else
		MPI_Probe(0, TAG, WORLD, &status);
}

static void probe_release(void)
{
	if (rank == 1)
		take(TAG);
}

static MPI_Message message;

static void mprobe_call(void)
{
	if (rank == 0)
		send_mine(TAG);
	else
		MPI_Mprobe(0, TAG, WORLD, &message, MPI_STATUS_IGNORE);
}

static void mprobe_release(void)
{
	if (rank == 1)
		MPI_Mrecv(theirs, COUNT, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
}

/* Polls as a program of its own: the library must not slow it, so no poll sleeps. */
static void test_call(void)
{
	MPI_Request request;
	int done = 0, there;

	if (rank == 0) {
		send_mine(TAG);
		return;
	}
	MPI_Irecv(theirs, COUNT, MPI_DOUBLE, 0, TAG, WORLD, &request);
	for (long polls = 0; !done; polls++) {
		MPI_Test(&request, &done, MPI_STATUS_IGNORE);
		MPI_Iprobe(0, TAG + 2, WORLD, &there, MPI_STATUS_IGNORE);
		if (polls == POLLS)
			absence_say();
	}
}

static void persistent_prepare(void)
{
	if (rank == 0)
		MPI_Send_init(mine, COUNT, MPI_DOUBLE, 1, TAG, WORLD, &requests[0]);
	else
		MPI_Recv_init(theirs, COUNT, MPI_DOUBLE, 0, TAG, WORLD, &requests[0]);
}

static void persistent_call(void)
{
	MPI_Start(&requests[0]);
	MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void persistent_release(void)
{
	MPI_Request_free(&requests[0]);
}

const struct cell cells_p2p[] = {
        {"Recv", NULL, recv_call, NULL},
        {"Ssend", NULL, ssend_call, NULL},
        {"Sendrecv", NULL, sendrecv_call, NULL},
        {"Wait", NULL, wait_call, NULL},
        {"Waitall", two_prepare, waitall_call, NULL},
        {"Waitany", one_prepare, waitany_call, NULL},
        {"Waitsome", one_prepare, waitsome_call, NULL},
        {"Probe", NULL, probe_call, probe_release},
        {"Mprobe", NULL, mprobe_call, mprobe_release},
        {"Start+Wait", persistent_prepare, persistent_call, persistent_release},
        {"Test", NULL, test_call, NULL},
        {NULL, NULL, NULL, NULL},
};
