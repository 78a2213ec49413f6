/* Prints how many turns of GNU's loop threads=bounded allows here: what a task finds in GOMP_SPINCOUNT. */
#include <stdio.h>

#include "spank/policy/openmp.h"

int main(void)
{
	printf("%llu\n", (unsigned long long)openmp_spins_measure());
	return 0;
}
