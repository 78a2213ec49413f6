/*
 * Plays two phases, named by MPI_Pcontrol: in 3 all ranks wait for rank 0 ten times, in 4 for the last rank five times.
 * The second phase ends through Fortran's MPI_Pcontrol, if there is one.
 */
#include <mpi.h>
#include <unistd.h>

#define STEP_US 20000

extern void mpi_pcontrol_(const int *level) __attribute__((weak));

static void steps(int count, int is_late)
{
	for (int i = 0; i < count; i++) {
		if (is_late)
			usleep(STEP_US);
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

int main(int argc, char **argv)
{
	const int over = 0;
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Pcontrol(3, "a name that is nobody's business", 2.5);
	steps(10, rank == 0);
	MPI_Pcontrol(4);
	steps(5, rank == size - 1);
	if (mpi_pcontrol_)
		mpi_pcontrol_(&over);
	else
		MPI_Pcontrol(over);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
