/*
 * The wrappers PMPI_X and PMPI_X_c of every row of mpi_calls.def, generated. Their invariant stands in wrap.h.
 */
#include "preload/wrap.h"

#define LARGE(name, arguments, kind, group, signature, volume) \
	WRAPPER(PMPI_##name##_c, name, arguments, kind, group, signature, volume, NAME_PMPI_LARGE, LARGE)

#define CALL(name, arguments, kind, large, group, signature, volume)                            \
	WRAPPER(PMPI_##name, name, arguments, kind, group, signature, volume, NAME_PMPI, PLAIN) \
	large(name, arguments, kind, group, signature, volume)

#include "preload/mpi_calls.def"
