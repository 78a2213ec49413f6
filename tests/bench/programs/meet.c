/*
 * Many ranks compute for a step, unequally, and meet in an Allreduce.
 *
 *     meet PATTERN STEP_US STEPS             plays, launched as an MPI program
 *     meet plan PATTERN STEP_US STEPS RANKS  prints how long each of that many ranks computes in all, in steps
 *
 * The work of a rank in a step depends on the pattern, the rank and the step alone: it is the same in each launch. A
 * rank computes until the monotonic clock says that its work is done, so each rank needs a core of its own.
 *
 * Rank 0 prints "meet PATTERN RANKS STEPS wall_us ideal_us wait_us wait_cpu_percent":
 *   wall_us           wall time of a step, of the rank that is slowest in all; the clock starts behind a barrier
 *   ideal_us          wall time of a step if meeting took no time: the mean of the steps' longest planned work
 *   wait_us           wait of a rank in a step: mean of (wall time - wall time in the work)
 *   wait_cpu_percent  100 * sum of (CPU time of the process - the thread's CPU time in the work) / sum of the waits;
 *                     both sums are over all ranks and steps; the process's CPU time has its other threads in it
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define HEAVIEST        30.0 /* the heavy tail ends there, in units of its scale */
#define TAIL            2.5  /* exponent of the heavy tail */
#define DRIFT_STEPS     40.0 /* steps in which the field drifts by one radian */
#define CHUNK           64   /* multiplications between two reads of the clock */

enum draw { DRAW_RADIUS, DRAW_ANGLE, DRAW_TAIL };

/* Returns a number above 0 and below 1 that depends on its arguments alone (the mixing of splitmix64). */
static double drawn(int rank, int step, enum draw draw)
{
	uint64_t mixed = ((uint64_t)(uint32_t)rank << 40 ^ (uint64_t)(uint32_t)step << 8 ^ (uint64_t)draw) +
	                 UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return ((double)((mixed ^ mixed >> 31) >> 12) + 0.5) / (double)(UINT64_C(1) << 52);
}

/* Returns a normally distributed number of mean 0 and deviation 1 (Box and Muller). */
static double normal(int rank, int step)
{
	return sqrt(-2 * log(drawn(rank, step, DRAW_RADIUS))) * cos(2 * M_PI * drawn(rank, step, DRAW_ANGLE));
}

static double always(int rank, int ranks, int step)
{
	return (rank == ranks / 2 ? 1.3 : 1) * (1 + 0.005 * normal(rank, step));
}

static double rotate(int rank, int ranks, int step)
{
	return (rank == step % ranks ? 1.3 : 1) * (1 + 0.005 * normal(rank, step));
}

static double half(int rank, int ranks, int step)
{
	(void)ranks;
	return (rank % 2 ? 1.5 : 1) * (1 + 0.02 * normal(rank, step));
}

static double random_work(int rank, int ranks, int step)
{
	(void)ranks;
	return fmax(0.5, 1 + 0.1 * normal(rank, step));
}

static double drift(int rank, int ranks, int step)
{
	return (1 + 0.15 * sin(2 * M_PI * rank / ranks + step / DRIFT_STEPS)) * (1 + 0.01 * normal(rank, step));
}

static double heavy(int rank, int ranks, int step)
{
	(void)ranks;
	return 1 + 0.02 * fmin(HEAVIEST, pow(drawn(rank, step, DRAW_TAIL), -1 / TAIL) - 1);
}

/* share: the work of a rank in a step, in units of the step */
static const struct pattern {
	const char *name;
	double (*share)(int rank, int ranks, int step);
} patterns[] = {{"always", always},      {"rotate", rotate}, {"half", half},
                {"random", random_work}, {"drift", drift},   {"heavy", heavy}};

static const struct pattern *pattern_find(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(patterns); i++)
		if (strcmp(patterns[i].name, name) == 0)
			return &patterns[i];
	return NULL;
}

/* One rank's times in seconds; MPI_Reduce adds them up as an array of doubles. */
struct measured {
	double wall, cpu, work_wall, work_cpu;
};

/* Computes until the monotonic clock has reached `until`. */
static void work(double until)
{
	volatile double sink = 1;

	while (seconds(CLOCK_MONOTONIC) < until)
		for (int i = 0; i < CHUNK; i++)
			sink = sink * 1.0000001 + 1e-9;
}

static void step_play(const struct pattern *pattern, int rank, int ranks, int step, double step_s,
                      struct measured *total)
{
	double cpu = seconds(CLOCK_THREAD_CPUTIME_ID), began = seconds(CLOCK_MONOTONIC);
	int one = 1, sum = 0;

	work(began + step_s * pattern->share(rank, ranks, step));
	total->work_wall += seconds(CLOCK_MONOTONIC) - began;
	total->work_cpu += seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (sum == ranks)
		return;
	fprintf(stderr, "meet: rank %d: the sum of %d ranks is %d\n", rank, ranks, sum);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static struct measured play(const struct pattern *pattern, int rank, int ranks, int steps, double step_s)
{
	struct measured total = {0};

	MPI_Barrier(MPI_COMM_WORLD);
	total.wall = -seconds(CLOCK_MONOTONIC);
	total.cpu = -seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int step = 0; step < steps; step++)
		step_play(pattern, rank, ranks, step, step_s, &total);
	total.cpu += seconds(CLOCK_PROCESS_CPUTIME_ID);
	total.wall += seconds(CLOCK_MONOTONIC);
	return total;
}

/* Returns the mean, over the steps, of the longest work of a step, in units of the step. */
static double ideal(const struct pattern *pattern, int ranks, int steps)
{
	double sum = 0;

	for (int step = 0; step < steps; step++) {
		double longest = 0;

		for (int rank = 0; rank < ranks; rank++)
			longest = fmax(longest, pattern->share(rank, ranks, step));
		sum += longest;
	}
	return sum / steps;
}

static void plan_print(const struct pattern *pattern, int ranks, int steps)
{
	for (int rank = 0; rank < ranks; rank++) {
		double sum = 0;

		for (int step = 0; step < steps; step++)
			sum += pattern->share(rank, ranks, step);
		printf("plan %s %d %.6f\n", pattern->name, rank, sum);
	}
	printf("ideal %s %.6f\n", pattern->name, ideal(pattern, ranks, steps));
}

static void result_print(const struct pattern *pattern, int ranks, int steps, double step_us, double longest,
                         const struct measured *sum)
{
	double waits = sum->wall - sum->work_wall;

	printf("meet %s %d %d %.3f %.3f %.3f %.3f\n", pattern->name, ranks, steps, 1e6 * longest / steps,
	       step_us * ideal(pattern, ranks, steps), 1e6 * waits / steps / ranks,
	       waits > 0 ? 100 * (sum->cpu - sum->work_cpu) / waits : 0);
}

static void measure(const struct pattern *pattern, double step_us, int steps)
{
	struct measured mine, sum;
	double longest;
	int rank, ranks;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	mine = play(pattern, rank, ranks, steps, 1e-6 * step_us);
	MPI_Reduce(&mine.wall, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &sum, sizeof(sum) / sizeof(double), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		result_print(pattern, ranks, steps, step_us, longest, &sum);
}

int main(int argc, char **argv)
{
	int is_plan = argc == 6 && strcmp(argv[1], "plan") == 0;
	const struct pattern *pattern = argc == 4 || is_plan ? pattern_find(argv[is_plan + 1]) : NULL;
	double step_us = pattern ? atof(argv[is_plan + 2]) : 0;
	int steps = pattern ? atoi(argv[is_plan + 3]) : 0, ranks = is_plan ? atoi(argv[5]) : 1;

	if (step_us <= 0 || steps < 1 || ranks < 1) {
		fputs("usage: meet [plan] PATTERN STEP_US STEPS [RANKS, of a plan]\n", stderr);
		return 2;
	}
	if (is_plan) {
		plan_print(pattern, ranks, steps);
		return 0;
	}
	MPI_Init(&argc, &argv);
	measure(pattern, step_us, steps);
	MPI_Finalize();
	return 0;
}
