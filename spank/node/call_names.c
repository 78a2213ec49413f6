#include "spank/node/call_names.h"

static const char *const names[] = {
#define CALL(name, ...) "MPI_" #name,
#include "preload/mpi/mpi_calls.def"
#undef CALL
};

bool call_may_wait(size_t row)
{
	enum { WAIT = true, TIME = true, MARK = false };
	static const bool may[] = {
#define CALL(name, arguments, kind, ...) kind,
#include "preload/mpi/mpi_calls.def"
#undef CALL
	};

	return row < CALL_ROWS && may[row];
}

const char *call_name(size_t row)
{
	return row < CALL_ROWS ? names[row] : "other";
}
