/*
 * The least that a PMPI tool can do, as the floor: it counts, and calls on. Arguments are machine words, as in the
 * library itself, so that one file serves every MPI and the fake one.
 */
#include <stdint.h>

typedef uintptr_t word;

unsigned long count_calls;

#define COUNT(name, parameters, arguments) \
	int P##name parameters;            \
	int name parameters;               \
	int name parameters                \
	{                                  \
		count_calls++;             \
		return P##name arguments;  \
	}

COUNT(MPI_Send, (word a, word b, word c, word d, word e, word f), (a, b, c, d, e, f))
COUNT(MPI_Recv, (word a, word b, word c, word d, word e, word f, word g), (a, b, c, d, e, f, g))
COUNT(MPI_Isend, (word a, word b, word c, word d, word e, word f, word g), (a, b, c, d, e, f, g))
COUNT(MPI_Irecv, (word a, word b, word c, word d, word e, word f, word g), (a, b, c, d, e, f, g))
COUNT(MPI_Waitall, (word a, word b, word c), (a, b, c))
COUNT(MPI_Barrier, (word a), (a))
