/*
 * A thread of rank 1 is blocked in a call while another computes, and then calls now and then; rank 0 is away
 * meanwhile. For an MPI library that holds a lock in its wait loop. For each call rank 1 prints how often the blocked
 * thread has rested while the other one computed, how many of its naps calls of the other have ended, how many calls
 * there were, and what the blocked one got.
 *
 *     locked RESTS RUNG CALLS CALL...
 *
 * The other thread computes until there were so many rests. Then it calls Iprobe after each further rest, until so many
 * naps were ended by that; and then without a pause, until there were so many calls. It goes on after GIVE_UP_S. CALL
 * is Recv, Allreduce, or Waitany.
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
#define PAUSES    8
#define PAUSE_S   20e-6

static const char *blocked_in;
static MPI_Comm apart; /* for the collective */
static int lanes = 1;  /* of rank 1: one for each thread that has called MPI */

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

/* Until the lane has rested so often. */
static void compute(int lane, long rests, double until_s)
{
	while (absence_rests(lane) < rests && now_s() < until_s)
		;
}

/* The next nap has begun by then, one time or another. */
static void linger(long pauses)
{
	double until_s = now_s() + PAUSE_S * (double)pauses;

	while (now_s() < until_s)
		;
}

static void ask(long *calls)
{
	int there;

	MPI_Iprobe(0, POLL_TAG, WORLD, &there, MPI_STATUS_IGNORE);
	++*calls;
}

static void call_beside(long rests, long rung, long least)
{
	double until_s = now_s() + GIVE_UP_S;
	int word = 0, lane = lanes++;
	long calls = 0, rested;
	pthread_t thread;

	pthread_create(&thread, NULL, receive, &word);
	compute(lane, rests, until_s);
	rested = absence_rests(lane);
	while (absence_rung(lane) < rung && now_s() < until_s) {
		compute(lane, absence_rests(lane) + 1, until_s);
		linger(calls % PAUSES);
		ask(&calls);
	}
	rung = absence_rung(lane);
	while (calls < least)
		ask(&calls);
	printf("%s %ld %ld %ld", blocked_in, rested, rung, calls);
	MPI_Send(&word, 1, MPI_INT, 0, GO_TAG, WORLD);
	pthread_join(thread, NULL);
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
		MPI_Send(&word, 1, MPI_INT, 1, END_TAG, WORLD);
}

int main(int argc, char **argv)
{
	int provided, rank;

	if (argc < 5)
		return 2;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_dup(WORLD, &apart);
	for (int i = 4; i < argc; i++) {
		blocked_in = argv[i];
		if (rank == 0)
			be_away();
		else
			call_beside(atol(argv[1]), atol(argv[2]), atol(argv[3]));
	}
	MPI_Comm_free(&apart);
	MPI_Finalize();
	return 0;
}
