/*
 * Polling loops as programs write them. Two ranks: rank 1 tests by MPI_Test or MPI_Iprobe until a message of rank 0
 * arrives, which is sent that much later. It prints its CPU share, and the median time from the sending of the message
 * to its notice. With work between two tests it prints the tests per second.
 *
 *     asks test|iprobe|both MICROSECONDS:ROUNDS... work MICROSECONDS...
 *
 *     test 1000 0.082 21.5
 *     work 5 180000
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define WORLD      MPI_COMM_WORLD
#define ROUNDS_MAX 10000
#define WORK_S     0.5

static int rank;
static double shares[ROUNDS_MAX], afters[ROUNDS_MAX];

static void spend_until(double until)
{
	while (seconds(CLOCK_MONOTONIC) < until)
		continue;
}

/* Polls until the message is there. Returns its contents: when it was sent, by the clock that both ranks read. */
static double ask(const char *how)
{
	MPI_Request request;
	double sent = 0;
	int flag = 0;

	if (strcmp(how, "iprobe") == 0) {
		while (!flag)
			MPI_Iprobe(0, 0, WORLD, &flag, MPI_STATUS_IGNORE);
		MPI_Recv(&sent, 1, MPI_DOUBLE, 0, 0, WORLD, MPI_STATUS_IGNORE);
		return sent;
	}
	MPI_Irecv(&sent, 1, MPI_DOUBLE, 0, 0, WORLD, &request);
	while (!flag) {
		int other;

		if (strcmp(how, "both") == 0)
			MPI_Iprobe(0, 1, WORLD, &other, MPI_STATUS_IGNORE);
		MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
	}
	return sent;
}

static void late_play(const char *how, double microseconds, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		double began, cpu, sent;

		MPI_Barrier(WORLD);
		began = seconds(CLOCK_MONOTONIC);
		cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
		if (rank == 0) {
			spend_until(began + 1e-6 * microseconds);
			sent = seconds(CLOCK_MONOTONIC);
			MPI_Send(&sent, 1, MPI_DOUBLE, 1, 0, WORLD);
			continue;
		}
		sent = ask(how);
		afters[round] = (seconds(CLOCK_MONOTONIC) - sent) * 1e6;
		shares[round] = (seconds(CLOCK_THREAD_CPUTIME_ID) - cpu) / (seconds(CLOCK_MONOTONIC) - began);
	}
	if (rank == 1)
		printf("%s %g %.4f %.2f\n", how, microseconds, median(shares, rounds), median(afters, rounds));
}

/* Plays a loop that computes between its tests, for a request that completes only after the loop. */
static void work_play(double microseconds)
{
	double until = seconds(CLOCK_MONOTONIC) + WORK_S;
	int word = 0, flag = 0, tests = 0;
	MPI_Request request;

	if (rank == 0) {
		struct timespec late = {(time_t)WORK_S, (long)(WORK_S * 1e9) % 1000000000};

		nanosleep(&late, NULL);
		MPI_Barrier(WORLD);
		MPI_Send(&word, 1, MPI_INT, 1, 2, WORLD);
		return;
	}
	MPI_Irecv(&word, 1, MPI_INT, 0, 2, WORLD, &request);
	for (; seconds(CLOCK_MONOTONIC) < until; tests++) {
		MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
		spend_until(seconds(CLOCK_MONOTONIC) + 1e-6 * microseconds);
	}
	MPI_Barrier(WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	printf("work %g %.0f\n", microseconds, tests / WORK_S);
}

int main(int argc, char **argv)
{
	int works = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	for (int i = 2; i < argc; i++) {
		double length;
		int rounds;

		if (strcmp(argv[i], "work") == 0)
			works = 1;
		else if (works)
			work_play(atof(argv[i]));
		else if (sscanf(argv[i], "%lf:%d", &length, &rounds) != 2 || rounds < 1 || rounds > ROUNDS_MAX)
			MPI_Abort(WORLD, 2);
		else
			late_play(argv[1], length, rounds);
	}
	MPI_Finalize();
	return 0;
}
