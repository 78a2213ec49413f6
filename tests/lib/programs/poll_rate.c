/*
 * How fast a program polls that does not block, by Test and Iprobe until a deadline: rank 1 asleep, rank 0 prints the
 * rounds per second, the best of several measurements. "multiple" starts MPI with THREAD_MULTIPLE; with "thread", a
 * second thread of rank 0 is blocked in Recv meanwhile, or in Allreduce or Waitany, and Iprobe alone is polled.
 *
 *     poll_rate [multiple|thread [Recv|Allreduce|Waitany]]
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS    8
#define POLL_TAG  1
#define END_TAG   2
#define LAST_TAG  3
#define WORLD     MPI_COMM_WORLD
#define ROUND_S   0.03
#define ASLEEP_NS (long)(ROUND_S * 1.5 * ROUNDS * 1e9)

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double rate_once(MPI_Request *request)
{
	double began = now_s(), now = began;
	long polls = 0;
	int flag;

	for (; now - began < ROUND_S; now = now_s(), polls++) {
		if (request)
			MPI_Test(request, &flag, MPI_STATUS_IGNORE);
		MPI_Iprobe(1, POLL_TAG, WORLD, &flag, MPI_STATUS_IGNORE);
	}
	return (double)polls / (now - began);
}

static double rate_best(MPI_Request *request)
{
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double rate = rate_once(request);

		best = rate > best ? rate : best;
	}
	return best;
}

static const char *blocked_in = "Recv";
static MPI_Comm apart; /* for the collective */

static void *receive(void *argument)
{
	MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	int *word = argument, none = 0, index;

	if (strcmp(blocked_in, "Allreduce") == 0) {
		MPI_Allreduce(&none, word, 1, MPI_INT, MPI_SUM, apart);
	} else if (strcmp(blocked_in, "Waitany") == 0) {
		MPI_Irecv(word, 1, MPI_INT, 1, END_TAG, WORLD, &requests[1]);
		MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(word, 1, MPI_INT, 1, END_TAG, WORLD, MPI_STATUS_IGNORE);
	}
	return NULL;
}

static void polls(int threaded)
{
	MPI_Request request;
	pthread_t thread;
	int word = 0, none = 0;
	double rate;

	if (threaded)
		pthread_create(&thread, NULL, receive, &word);
	MPI_Irecv(&none, 1, MPI_INT, 1, LAST_TAG, WORLD, &request);
	rate = rate_best(threaded ? NULL : &request);
	if (threaded)
		pthread_join(thread, NULL);
	else
		receive(&word);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	printf("rate %.0f words %d %d\n", rate, word, none);
}

static void sleep_and_send(void)
{
	struct timespec asleep = {ASLEEP_NS / 1000000000, ASLEEP_NS % 1000000000};
	int word = 4711, sum;

	nanosleep(&asleep, NULL);
	if (strcmp(blocked_in, "Allreduce") == 0)
		MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, apart);
	else
		MPI_Send(&word, 1, MPI_INT, 0, END_TAG, WORLD);
	MPI_Send(&word, 1, MPI_INT, 0, LAST_TAG, WORLD);
}

int main(int argc, char **argv)
{
	int rank, provided;

	if (argc > 1)
		MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	else
		MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	if (argc > 2)
		blocked_in = argv[2];
	MPI_Comm_dup(WORLD, &apart);
	if (rank == 0)
		polls(argc > 1 && strcmp(argv[1], "thread") == 0);
	else if (rank == 1)
		sleep_and_send();
	MPI_Comm_free(&apart);
	MPI_Finalize();
	return 0;
}
