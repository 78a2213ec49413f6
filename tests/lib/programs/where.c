/* Each rank prints one line: its rank, host, CPUs, and the variables that a wait policy left in its environment. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void print_cpus(char *buffer, size_t size)
{
	size_t used = 0;
	cpu_set_t cpus;

	buffer[0] = '\0';
	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return;
	for (int i = 0; i < CPU_SETSIZE && used < size; i++)
		if (CPU_ISSET(i, &cpus))
			used += (size_t)snprintf(buffer + used, size - used, "%s%d", used ? "," : "", i);
}

int main(int argc, char **argv)
{
	const char *preload = getenv("LD_PRELOAD"), *config = getenv("MPI_WAIT_CONFIG");
	char host[256] = "", cpus[4096];
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	gethostname(host, sizeof(host) - 1);
	print_cpus(cpus, sizeof(cpus));
	printf("rank=%d host=%s affinity=%s preload=%s config=%s\n", rank, host, cpus, preload ? preload : "none",
	       config ? config : "none");
	MPI_Finalize();
	return 0;
}
