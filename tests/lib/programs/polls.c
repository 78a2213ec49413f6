/*
 * A thread of rank 1 is blocked in a call while another polls by Iprobe; rank 0 is away meanwhile. For each call rank 1
 * prints the polls per second, how often the polling and the blocked thread slept, and the blocked call's result.
 * Without a blocked thread the second number counts the yields of the polling thread.
 *
 *     polls POLLS SLEEPS CALL...
 *
 * The thread polls POLLS times, and on until the blocked thread has slept SLEEPS times or, with SLEEPS -1, until the
 * process could not nap under the runtime's lock: for GIVE_UP_S at most. CALL is Recv, Allreduce, Waitany, or none: no
 * blocked thread, and Test too.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "late/absence.h"

#define POLL_TAG  1
#define GO_TAG    2
#define END_TAG   3
#define WORD      4711
#define WORLD     MPI_COMM_WORLD
#define GIVE_UP_S 30

static const char *blocked_in;
static MPI_Comm apart; /* communicator of the collective */
static int rank;
static int lanes = 1; /* lanes of rank 1, one for each thread that has called MPI */

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *receive(void *argument)
{
	MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	int *word = argument, none = 0, index;

	if (strcmp(blocked_in, "Allreduce") == 0) {
		MPI_Allreduce(&none, word, 1, MPI_INT, MPI_SUM, apart);
	} else if (strcmp(blocked_in, "Waitany") == 0) {
		MPI_Irecv(word, 1, MPI_INT, 0, END_TAG, WORLD, &requests[1]);
		MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(word, 1, MPI_INT, 0, END_TAG, WORLD, MPI_STATUS_IGNORE);
	}
	return NULL;
}

static int has_slept(long sleeps, int lane)
{
	return sleeps < 0 ? absence_is_locked() : absence_sleeps(lane) >= sleeps;
}

static double polls_do(long least, long sleeps, int lane)
{
	double began = now_s();
	long polls = 0;
	int there;

	while (polls < least || (!has_slept(sleeps, lane) && now_s() - began < GIVE_UP_S)) {
		MPI_Iprobe(0, POLL_TAG, WORLD, &there, MPI_STATUS_IGNORE);
		polls++;
	}
	return (double)polls / (now_s() - began);
}

static double polls_do_alone(long least, MPI_Request *request)
{
	double began = now_s();
	int done, there;

	for (long polls = 0; polls < least; polls++) {
		MPI_Test(request, &done, MPI_STATUS_IGNORE);
		MPI_Iprobe(0, END_TAG, WORLD, &there, MPI_STATUS_IGNORE);
	}
	return (double)least / (now_s() - began);
}

static void poll_beside(long least, long sleeps)
{
	int word = 0, lane = lanes++;
	long before = absence_sleeps(0);
	pthread_t thread;
	double rate;

	pthread_create(&thread, NULL, receive, &word);
	rate = polls_do(least, sleeps, lane);
	printf("%s %.0f %ld %ld", blocked_in, rate, absence_sleeps(0) - before, absence_sleeps(lane));
	MPI_Send(&word, 1, MPI_INT, 0, GO_TAG, WORLD);
	pthread_join(thread, NULL);
	printf(" %d\n", word);
}

static void poll_alone(long least)
{
	long sleeps = absence_sleeps(0), yields = absence_yields();
	MPI_Request request;
	int word = 0;
	double rate;

	MPI_Irecv(&word, 1, MPI_INT, 0, POLL_TAG, WORLD, &request);
	rate = polls_do_alone(least, &request);
	printf("%s %.0f %ld %ld", blocked_in, rate, absence_sleeps(0) - sleeps, absence_yields() - yields);
	MPI_Send(&rank, 1, MPI_INT, 0, GO_TAG, WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	printf(" %d\n", word);
}

static void be_away(void)
{
	int word, sum;

	MPI_Recv(&word, 1, MPI_INT, 1, GO_TAG, WORLD, MPI_STATUS_IGNORE);
	word = WORD;
	if (strcmp(blocked_in, "Allreduce") == 0)
		MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, apart);
	else
		MPI_Send(&word, 1, MPI_INT, 1, strcmp(blocked_in, "none") == 0 ? POLL_TAG : END_TAG, WORLD);
}

int main(int argc, char **argv)
{
	int provided;

	if (argc < 4)
		return 2;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_dup(WORLD, &apart);
	for (int i = 3; i < argc; i++) {
		blocked_in = argv[i];
		if (rank == 0)
			be_away();
		else if (strcmp(blocked_in, "none") == 0)
			poll_alone(atol(argv[1]));
		else
			poll_beside(atol(argv[1]), atol(argv[2]));
	}
	MPI_Comm_free(&apart);
	MPI_Finalize();
	return 0;
}
