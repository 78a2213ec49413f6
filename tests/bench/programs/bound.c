/*
 * Binds a rank to a core of its own, and becomes the rank's program.
 *
 *     bound CPU,CPU,... COMMAND [ARGUMENT...]
 *
 * Rank r of a node runs on the CPU at index r of the list. Open MPI or a PMI launcher gives the rank in the
 * environment. Fails if the list is too short: two ranks would share a core.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank_of_this(void)
{
	const char *text = getenv("OMPI_COMM_WORLD_RANK");

	if (!text)
		text = getenv("PMI_RANK");
	return text ? atoi(text) : -1;
}

/* Returns the number at that index of a comma-separated list, or -1 if the list ends before it. */
static int number_at(const char *list, int index)
{
	while (list && index-- > 0) {
		list = strchr(list, ',');
		list += list != NULL;
	}
	return list && index == -1 ? atoi(list) : -1;
}

int main(int argc, char **argv)
{
	int cpu = argc > 2 ? number_at(argv[1], rank_of_this()) : -1;
	cpu_set_t mask;

	if (cpu < 0 || cpu >= CPU_SETSIZE) {
		fprintf(stderr, "bound: rank %d has no core in '%s'\n", rank_of_this(), argc > 1 ? argv[1] : "");
		return 2;
	}
	CPU_ZERO(&mask);
	CPU_SET((size_t)cpu, &mask);
	if (sched_setaffinity(0, sizeof(mask), &mask) != 0) {
		perror("bound: sched_setaffinity");
		return 2;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
