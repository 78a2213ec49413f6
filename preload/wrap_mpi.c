/*
 * The wrappers MPI_X and MPI_X_c of every row of mpi_calls.def, generated. Their invariant stands in wrap.h.
 */
#include "preload/wrap.h"

#define LARGE(name, arguments, kind, group, signature, volume) \
	WRAPPER(MPI_##name##_c, name, arguments, kind, group, signature, volume, NAME_MPI_LARGE, LARGE)

#define CALL(name, arguments, kind, large, group, signature, volume)                          \
	WRAPPER(MPI_##name, name, arguments, kind, group, signature, volume, NAME_MPI, PLAIN) \
	large(name, arguments, kind, group, signature, volume)

#include "preload/mpi_calls.def"
