/* Prints what the launcher tells a process of that family of MPI libraries: launcher_driver FAMILY [pmix] */
#include "preload/mpi/launcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct launcher launcher;

	if (argc < 2)
		return 2;
	launcher_read((enum mpiwait_family)atoi(argv[1]), argc > 2, &launcher);
	printf("launch %" PRIu64 "\nrank %d\nsize %d\ntask %u\n", launcher.launch, launcher.rank, launcher.size,
	       launcher.task);
	return 0;
}
