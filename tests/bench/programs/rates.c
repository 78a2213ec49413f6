/*
 * Measures the cost of calls that hardly wait, on two ranks. Rank 0 prints one line per figure, "NAME V,V,...", with
 * one value per repetition:
 *
 *     call_ns     a call that has nothing to do: MPI_Send to MPI_PROC_NULL
 *     oneway_us   half a round trip of 8 bytes
 *     messages    per second, 8 bytes, 64 Isend and Irecv at a time, and a Waitall
 *     clock_ns    two reads of the clock, the kernel's (argument "clock") or the processor's (argument "tsc")
 *
 *     rates clock|tsc REPETITIONS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

#define TAG     7
#define WORLD   MPI_COMM_WORLD
#define CALLS   50000
#define ROUNDS  300
#define WINDOW  64
#define WINDOWS 30
#define READS   10000

static int rank, by_tsc;

static double nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double call_ns(void)
{
	double began = nanoseconds();
	char word[8] = {0};

	for (int i = 0; i < CALLS; i++)
		MPI_Send(word, sizeof(word), MPI_BYTE, MPI_PROC_NULL, TAG, WORLD);
	return (nanoseconds() - began) / CALLS;
}

static double oneway_us(void)
{
	double began = nanoseconds();
	char word[8] = {0};

	for (int i = 0; i < ROUNDS; i++) {
		if (rank == 0)
			MPI_Send(word, sizeof(word), MPI_BYTE, 1, TAG, WORLD);
		MPI_Recv(word, sizeof(word), MPI_BYTE, 1 - rank, TAG, WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(word, sizeof(word), MPI_BYTE, 0, TAG, WORLD);
	}
	return (nanoseconds() - began) * 1e-3 / (2 * ROUNDS);
}

static double messages(void)
{
	double began = nanoseconds();
	MPI_Request request[WINDOW];
	char word[WINDOW][8] = {{0}};

	for (int i = 0; i < WINDOWS; i++) {
		for (int j = 0; j < WINDOW; j++) {
			if (rank == 0)
				MPI_Isend(word[j], sizeof(word[j]), MPI_BYTE, 1, TAG, WORLD, &request[j]);
			else
				MPI_Irecv(word[j], sizeof(word[j]), MPI_BYTE, 0, TAG, WORLD, &request[j]);
		}
		MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(word[0], 1, MPI_BYTE, 1, TAG, WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(word[0], 1, MPI_BYTE, 0, TAG, WORLD);
	}
	return WINDOW * WINDOWS / ((nanoseconds() - began) * 1e-9);
}

static double clock_ns(void)
{
	double began = nanoseconds();
	unsigned long long sum = 0;
	struct timespec now;

	for (int i = 0; i < READS; i++) {
#ifdef __x86_64__
		if (by_tsc) {
			sum += __rdtsc();
			continue;
		}
#endif
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum += (unsigned long long)now.tv_nsec;
	}
	began = nanoseconds() - began;
	return sum ? 2 * began / READS : 0;
}

static const struct {
	const char *name;
	double (*play)(void);
} figures[] = {{"call_ns", call_ns}, {"oneway_us", oneway_us}, {"messages", messages}, {"clock_ns", clock_ns}};

static void measure(const char *name, double (*play)(void), int repetitions)
{
	double value;

	play(); /* warm up */
	if (rank == 0)
		printf("%s ", name);
	for (int i = 0; i < repetitions; i++) {
		MPI_Barrier(WORLD);
		value = play();
		if (rank == 0)
			printf("%s%.4f", i ? "," : "", value);
	}
	if (rank == 0)
		printf("\n");
}

int main(int argc, char **argv)
{
	int repetitions = argc > 2 ? atoi(argv[2]) : 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	by_tsc = argc > 1 && strcmp(argv[1], "tsc") == 0;
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		measure(figures[i].name, figures[i].play, repetitions);
	MPI_Finalize();
	return 0;
}
