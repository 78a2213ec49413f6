/*
 * Plays communication patterns of many ranks, one after the other, each in a communicator of its own: a farm (a master
 * hands out tasks and takes results from any source), a pipeline, a tree from point to point, a halo exchange on a grid
 * whose rows have unequal lengths, and a non-blocking Allreduce. The work between the messages is unequal, and the same
 * in each launch.
 *
 *     patterns WORK_US:STEPS
 *
 * WORK_US is a rank's mean work in a step. A pattern ends in a barrier, which counts: ranks that finish early wait in
 * it. Rank 0 prints "pattern NAME STEPS RANKS wall_us cpu_us work_us" for each pattern. For one step these are the
 * longest rank's wall time, the CPU time of all ranks, and how much of that was work.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define TAG_TASK        1
#define TAG_END         2
#define TASKS_EACH      2 /* mean tasks of a worker in a step: workers with short tasks get more */
#define NEIGHBOURS_MOST 4
#define HALO_DOUBLES    128

static int rank, size;
static MPI_Comm comm;
static double work_s, worked_s;

static void expect(int is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "patterns: rank %d: wrong result of the %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Returns a number between 0 and 2, 1 in the mean, that depends on its arguments alone (the mixing of splitmix64). */
static double share_of(int first, int second)
{
	uint64_t mixed = ((uint64_t)first << 32 | (uint32_t)second) + UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((mixed ^ mixed >> 31) >> 11) / (double)(UINT64_C(1) << 52);
}

/* Works by the thread's CPU clock, whatever else shares the core. */
static void work(double share)
{
	double began = seconds(CLOCK_THREAD_CPUTIME_ID), now = began;

	while (now - began < share * work_s)
		now = seconds(CLOCK_THREAD_CPUTIME_ID);
	worked_s += now - began;
}

static void farm_master(int steps)
{
	int tasks = steps * TASKS_EACH * (size - 1), given = 0, done = 0, task, ended = 0;
	MPI_Status status;

	for (int worker = 1; worker < size; worker++, given++)
		MPI_Send(&given, 1, MPI_INT, worker, TAG_TASK, comm);
	while (ended < size - 1) {
		MPI_Recv(&task, 1, MPI_INT, MPI_ANY_SOURCE, TAG_TASK, comm, &status);
		done++;
		ended += given >= tasks;
		MPI_Send(&given, 1, MPI_INT, status.MPI_SOURCE, given < tasks ? TAG_TASK : TAG_END, comm);
		given++;
	}
	expect(done == tasks, "farm");
}

static void farm(int steps)
{
	MPI_Status status;
	int task;

	if (rank == 0) {
		farm_master(steps);
		return;
	}
	for (;;) {
		MPI_Recv(&task, 1, MPI_INT, 0, MPI_ANY_TAG, comm, &status);
		if (status.MPI_TAG == TAG_END)
			return;
		work(share_of(0, task) / TASKS_EACH);
		MPI_Send(&task, 1, MPI_INT, 0, TAG_TASK, comm);
	}
}

static void pipeline(int steps)
{
	for (int step = 0; step < steps; step++) {
		int item = step;

		if (rank > 0)
			MPI_Recv(&item, 1, MPI_INT, rank - 1, 0, comm, MPI_STATUS_IGNORE);
		expect(item == step, "pipeline");
		work(share_of(rank, step));
		if (rank < size - 1)
			MPI_Send(&item, 1, MPI_INT, rank + 1, 0, comm);
	}
}

static void tree(int steps)
{
	int parent = (rank - 1) / 2, children = 2 * rank + 2 < size ? 2 : 2 * rank + 1 < size;

	for (int step = 0; step < steps; step++) {
		int sum = 1, part;

		work(share_of(rank, step));
		for (int child = 1; child <= children; child++, sum += part)
			MPI_Recv(&part, 1, MPI_INT, 2 * rank + child, 0, comm, MPI_STATUS_IGNORE);
		if (rank > 0) {
			MPI_Send(&sum, 1, MPI_INT, parent, 0, comm);
			MPI_Recv(&sum, 1, MPI_INT, parent, 0, comm, MPI_STATUS_IGNORE);
		}
		for (int child = 1; child <= children; child++)
			MPI_Send(&sum, 1, MPI_INT, 2 * rank + child, 0, comm);
		expect(sum == size, "tree");
	}
}

/* Returns the rank at that position of the grid, -1 if there is none. The last row may be short. */
static int grid_at(int row, int column)
{
	static const int lengths[] = {3, 5, 2, 4};
	int first = 0;

	if (row < 0)
		return -1;
	for (int above = 0; above < row; above++)
		first += lengths[(size_t)above % COUNT_OF(lengths)];
	if (column < 0 || column >= lengths[(size_t)row % COUNT_OF(lengths)] || first + column >= size)
		return -1;
	return first + column;
}

static int neighbours_find(int *ret_neighbours)
{
	static const int offsets[NEIGHBOURS_MOST][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
	int row = 0, column = 0, found = 0;

	while (grid_at(row, column) != rank)
		if (grid_at(row, ++column) < 0) {
			row++;
			column = 0;
		}
	for (size_t i = 0; i < COUNT_OF(offsets); i++) {
		int other = grid_at(row + offsets[i][0], column + offsets[i][1]);

		if (other >= 0)
			ret_neighbours[found++] = other;
	}
	return found;
}

static void halo(int steps)
{
	static double mine[HALO_DOUBLES], theirs[NEIGHBOURS_MOST][HALO_DOUBLES];
	int neighbours[NEIGHBOURS_MOST], count = neighbours_find(neighbours);
	MPI_Request requests[2 * NEIGHBOURS_MOST];

	for (int step = 0; step < steps; step++) {
		for (int i = 0; i < count; i++)
			MPI_Irecv(theirs[i], HALO_DOUBLES, MPI_DOUBLE, neighbours[i], 0, comm, &requests[i]);
		work(share_of(rank, step));
		mine[0] = rank + step;
		for (int i = 0; i < count; i++)
			MPI_Isend(mine, HALO_DOUBLES, MPI_DOUBLE, neighbours[i], 0, comm, &requests[count + i]);
		MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < count; i++)
			expect(theirs[i][0] == neighbours[i] + step, "halo");
	}
}

static void iallreduce(int steps)
{
	for (int step = 0; step < steps; step++) {
		int one = 1, sum = 0;
		MPI_Request request;

		work(share_of(rank, step));
		MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		expect(sum == size, "Iallreduce");
	}
}

static const struct pattern {
	const char *name;
	void (*play)(int steps);
} patterns[] = {{"farm", farm}, {"pipeline", pipeline}, {"tree", tree}, {"halo", halo}, {"iallreduce", iallreduce}};

/* Plays a pattern. Writes, in seconds, the wall time, the CPU time and the work of this rank. */
static void play(const struct pattern *pattern, int steps, double *ret_wall_s, double *ret_used)
{
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Barrier(comm);
	worked_s = 0;
	*ret_wall_s = -seconds(CLOCK_MONOTONIC);
	ret_used[0] = -seconds(CLOCK_PROCESS_CPUTIME_ID);
	pattern->play(steps);
	MPI_Barrier(comm);
	ret_used[0] += seconds(CLOCK_PROCESS_CPUTIME_ID);
	*ret_wall_s += seconds(CLOCK_MONOTONIC);
	ret_used[1] = worked_s;
	MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
	double wall[COUNT_OF(patterns)], used[COUNT_OF(patterns)][2];
	double longest[COUNT_OF(patterns)], sum[COUNT_OF(patterns)][2];
	int steps = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 2 || sscanf(argv[1], "%lf:%d", &work_s, &steps) != 2 || steps < 1 || size < 2)
		MPI_Abort(MPI_COMM_WORLD, 2);
	work_s *= 1e-6;
	for (size_t i = 0; i < COUNT_OF(patterns); i++)
		play(&patterns[i], steps, &wall[i], used[i]);
	MPI_Reduce(wall, longest, COUNT_OF(patterns), MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(used, sum, 2 * COUNT_OF(patterns), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	for (size_t i = 0; rank == 0 && i < COUNT_OF(patterns); i++)
		printf("pattern %s %d %d %.2f %.2f %.2f\n", patterns[i].name, steps, size, 1e6 * longest[i] / steps,
		       1e6 * sum[i][0] / steps, 1e6 * sum[i][1] / steps);
	MPI_Finalize();
	return 0;
}
