/* Prints the limit of turns of GNU's loop that threads=bounded sets here: a task's GOMP_SPINCOUNT. */
#include <stdio.h>

#include "spank/policy/openmp.h"

int main(void)
{
	printf("%llu\n", (unsigned long long)openmp_spins_measure());
	return 0;
}
