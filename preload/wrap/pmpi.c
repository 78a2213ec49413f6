/*
 * The wrappers PMPI_X and PMPI_X_c of every row of mpi_calls.def, generated. Their invariant stands in wrap.h.
 */
#include "preload/wrap/wrap.h"

#define EVERYWHERE(name, arguments, kind, group, signature, volume) \
	WRAPPER(PMPI_##name, name, arguments, kind, group, signature, volume, NAME_PMPI)

#define NEWER(name, arguments, kind, group, signature, volume) \
	LATER_WRAPPER(PMPI_##name, name, arguments, kind, group, signature, volume, NAME_PMPI)

#define NEWER_C(name, arguments, kind, group, signature, volume) \
	LATER_WRAPPER(PMPI_##name##_c, name, arguments, kind, group, signature, volume, NAME_PMPI_LARGE)

#define VARIADIC(name, ...) VARIADIC_WRAPPER(PMPI_##name, name, NAME_PMPI)

#define PLAIN(...)       EVERYWHERE(__VA_ARGS__)
#define LARGE(...)       EVERYWHERE(__VA_ARGS__) NEWER_C(__VA_ARGS__)
#define NEWER_PLAIN(...) NEWER(__VA_ARGS__)
#define NEWER_LARGE(...) NEWER(__VA_ARGS__) NEWER_C(__VA_ARGS__)

#define CALL(name, arguments, kind, large, group, signature, volume) \
	large(name, arguments, kind, group, signature, volume)

#include "preload/contract/mpi_calls.def"
