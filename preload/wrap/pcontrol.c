/*
 * MPI_Pcontrol(level, ...), which tells the program's phase (phase.h).
 *
 * What follows the level is for the tool behind us, of any number and any type. All registers in which arguments may
 * lie are named here, and handed on by a call of the variadic type: only by that is the callee told on x86-64, in al,
 * that there may be floating-point numbers. On ppc64le the words have these too. What a caller had to put on its stack,
 * more than five arguments after the level, is not handed on.
 */
#include "preload/process/phase.h"
#include "preload/wrap/wrap.h"

#if defined(__x86_64__) || defined(__aarch64__)
#define FLOATS       , double f0, double f1, double f2, double f3, double f4, double f5, double f6, double f7
#define FLOATS_GIVEN , f0, f1, f2, f3, f4, f5, f6, f7
#else
#define FLOATS
#define FLOATS_GIVEN
#endif
#define PARAMETERS word level, word a1, word a2, word a3, word a4, word a5 FLOATS
#define ARGUMENTS  level, a1, a2, a3, a4, a5 FLOATS_GIVEN

static inline __attribute__((always_inline)) int pcontrol(enum call_name name, PARAMETERS)
{
	int (*next)(int, ...) = next_look(ROW_Pcontrol * CALL_NAMES + name);
	struct forward outer = {.frame = FORWARD_NONE};
	uint32_t kind;
	int code;

	if (__builtin_expect(!next, 0)) {
		next = call_find(ROW_Pcontrol, name, HERE, CALLER, &outer);
		if (outer.frame == FORWARD_BACK)
			return next((int)ARGUMENTS);
	}
	kind = wait_mark(ROW_Pcontrol, false, HERE);
	code = next((int)ARGUMENTS);
	wait_unmark(kind);
	if (__builtin_expect(outer.frame != FORWARD_NONE, 0))
		forward_end(&outer);
	if (code == 0)
		phase_tell((int)level);
	return code;
}

__attribute__((visibility("default"))) int MPI_Pcontrol(PARAMETERS);
int MPI_Pcontrol(PARAMETERS)
{
	return pcontrol(NAME_MPI, ARGUMENTS);
}

__attribute__((visibility("default"))) int PMPI_Pcontrol(PARAMETERS);
int PMPI_Pcontrol(PARAMETERS)
{
	return pcontrol(NAME_PMPI, ARGUMENTS);
}
