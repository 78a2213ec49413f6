/*
 * Plays the communication of two of the NAS Parallel Benchmarks, with work of its own in between:
 *
 *     kernels lu ITERATIONS      a pipeline: each plane is passed on to the next rank, and back on the return sweep
 *     kernels cg ITERATIONS      conjugate gradients: halves of a vector are exchanged, and scalars added up
 *
 * Prints a checksum, which does not depend on timing.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANES  64
#define COLUMNS 64
#define ROWS    32 /* rows of a rank */
#define PARTS   5  /* values at a point */
#define LINE    (COLUMNS * PARTS)

#define SIZE  14000 /* length of a rank's part of the vector */
#define FULL  11    /* values of a matrix row */
#define INNER 25    /* steps until the solver starts anew */

static int rank, size;

/* Computes one plane of a sweep: each row from the one before it, the first from the neighbour's message. */
static void relax(double plane[ROWS][LINE], const double *edge)
{
	for (int row = 0; row < ROWS; row++) {
		const double *before = row ? plane[row - 1] : edge;

		for (int i = 0; i < LINE; i++)
			plane[row][i] = 0.01 + 0.6 * plane[row][i] + 0.3 * before[i] - 0.01 * plane[row][i] * before[i];
	}
}

static void sweep(double (*plane)[ROWS][LINE], int from, int to)
{
	double edge[LINE];

	for (int k = 0; k < PLANES; k++) {
		memset(edge, 0, sizeof(edge));
		if (from >= 0 && from < size)
			MPI_Recv(edge, LINE, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		relax(plane[k], edge);
		if (to >= 0 && to < size)
			MPI_Send(plane[k][ROWS - 1], LINE, MPI_DOUBLE, to, 0, MPI_COMM_WORLD);
	}
}

static double lu(int iterations)
{
	double(*plane)[ROWS][LINE] = calloc(PLANES, sizeof(*plane));
	double own, all = 0;

	for (int k = 0; k < PLANES; k++)
		for (int i = 0; i < LINE; i++)
			plane[k][0][i] = 1.0 / (1 + k + i + rank);
	for (int n = 0; n < iterations; n++) {
		sweep(plane, rank - 1, rank + 1);
		sweep(plane, rank + 1, rank - 1);
		own = plane[n % PLANES][ROWS - 1][n % LINE];
		MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	free(plane);
	return all;
}

static double sum(double own)
{
	double all;

	MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

static double dot(const double *a, const double *b)
{
	double own = 0;

	for (int i = 0; i < SIZE; i++)
		own += a[i] * b[i];
	return sum(own);
}

/* result = matrix * vector. Each rank has a part of the vector, and needs all of it. */
static void multiply(const int (*column)[FULL], const double *part, double *whole, double *result)
{
	MPI_Request *request = malloc((size_t)size * sizeof(MPI_Request));
	int requests = 0;

	for (int other = 0; other < size; other++)
		if (other != rank)
			MPI_Irecv(whole + other * SIZE, SIZE, MPI_DOUBLE, other, 1, MPI_COMM_WORLD,
			          &request[requests++]);
	for (int other = 0; other < size; other++)
		if (other != rank)
			MPI_Send(part, SIZE, MPI_DOUBLE, other, 1, MPI_COMM_WORLD);
	memcpy(whole + rank * SIZE, part, SIZE * sizeof(double));
	MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
	free(request);
	for (int i = 0; i < SIZE; i++) {
		result[i] = (1 + i % 50) * part[i];
		for (int k = 0; k < FULL; k++)
			result[i] -= 0.01 * whole[column[i][k]];
	}
}

static double cg(int iterations)
{
	int(*column)[FULL] = malloc(SIZE * sizeof(*column));
	double *whole = malloc((size_t)size * SIZE * sizeof(double));
	double *x = calloc(SIZE * 4, sizeof(double)), *r = x + SIZE, *p = r + SIZE, *q = p + SIZE;
	double rho = 0, before, alpha;

	srand((unsigned)rank + 1);
	for (int i = 0; i < SIZE; i++)
		for (int k = 0; k < FULL; k++)
			column[i][k] = rand() % (size * SIZE);
	for (int n = 0; n < iterations; n++) {
		if (n % INNER == 0) {
			for (int i = 0; i < SIZE; i++)
				x[i] = 0, r[i] = p[i] = 1;
			rho = dot(r, r);
		}
		multiply(column, p, whole, q);
		alpha = rho / dot(p, q);
		for (int i = 0; i < SIZE; i++) {
			x[i] += alpha * p[i];
			r[i] -= alpha * q[i];
		}
		before = rho;
		rho = dot(r, r);
		for (int i = 0; i < SIZE; i++)
			p[i] = r[i] + rho / before * p[i];
	}
	rho = dot(x, x);
	free(x);
	free(whole);
	free(column);
	return rho;
}

int main(int argc, char **argv)
{
	int iterations = argc > 2 ? atoi(argv[2]) : 10;
	double result;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	result = argc > 1 && strcmp(argv[1], "cg") == 0 ? cg(iterations) : lu(iterations);
	if (rank == 0)
		printf("checksum %.12e\n", result);
	MPI_Finalize();
	return 0;
}
