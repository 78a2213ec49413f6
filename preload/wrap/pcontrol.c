/*
 * MPI_Pcontrol(level, ...), by which the program tells its phase (phase.h).
 *
 * The arguments behind the level are for the tool behind us: any number, any type. The function names all registers in
 * which arguments may lie, and passes them on by a call of the variadic type. Only such a call tells the callee on
 * x86-64, in al, that there may be floating-point numbers. On ppc64le the words hold these too. Arguments on the
 * caller's stack, which are those beyond five after the level, are not passed on.
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
	int (*next)(int, ...) = next_known(ROW_Pcontrol * CALL_NAMES + name);
	struct forward outer = {.frame = FORWARD_NONE};
	uintptr_t before;
	uint32_t kind;
	int code;

	if (__builtin_expect(!next, 0)) {
		next = call_find(ROW_Pcontrol, name, HERE, CALLER, &outer);
		if (outer.frame == FORWARD_BACK)
			return next((int)ARGUMENTS);
	}
	kind = wait_mark(ROW_Pcontrol, false, HERE);
	before = call_hide(outer.frame != FORWARD_NONE, HERE);
	code = next((int)ARGUMENTS);
	call_show(before);
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
