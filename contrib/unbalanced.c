/*
 * An unbalanced MPI program, in which all ranks but the last one wait: every rank computes, the last one longest, and
 * all meet in MPI_Allreduce.
 *
 *     unbalanced [iterations [milliseconds [imbalance]]]
 *
 * In each iteration, rank r of P computes for milliseconds * (1 + imbalance * r / (P - 1)) of its own CPU time. The
 * values that are reduced do not depend on timing, so the checksum is the same to the bit under every wait policy.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Uses so many seconds of the thread's CPU time. */
static void compute(double seconds)
{
	double until = cpu_seconds() + seconds;
	volatile double sink = 1.0;

	while (cpu_seconds() < until)
		for (int i = 0; i < 2000; i++)
			sink = sink * 1.0000001 + 0.5;
}

int main(int argc, char **argv)
{
	int iterations = argc > 1 ? atoi(argv[1]) : 20;
	double base = (argc > 2 ? atof(argv[2]) : 20.0) / 1000.0;
	double imbalance = argc > 3 ? atof(argv[3]) : 3.0;
	double value, sum = 0.0;
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < iterations; i++) {
		compute(base * (1.0 + imbalance * rank / (size > 1 ? size - 1 : 1)));
		value = 1.0 / (1.0 + rank + i) + sum / 7.0;
		MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("%d ranks, %d iterations, checksum=%a\n", size, iterations, sum);
	MPI_Finalize();
	return 0;
}
