/*
 * The wrappers: MPI_X and PMPI_X (and their _c variants) for every row of mpi_calls.def, generated.
 *
 * Invariant: each forwards its arguments, as machine words and unchanged, to the next symbol of its own name. On
 * x86-64, AArch64 and ppc64le Linux an int or a pointer argument fills one register or one 8-byte stack slot, so one
 * definition serves every MPI's handles; and the Fortran bindings call these C functions, by one name or the other.
 */
#include <stdint.h>

#include "preload/calls.h"
#include "preload/next.h"
#include "preload/prewait.h"
#include "preload/process.h"
#include "preload/wait.h"

typedef uintptr_t word;

#define PARAMETERS_0 void
#define ARGUMENTS_0
#define PARAMETERS_1  word a0
#define ARGUMENTS_1   a0
#define PARAMETERS_2  word a0, word a1
#define ARGUMENTS_2   a0, a1
#define PARAMETERS_3  word a0, word a1, word a2
#define ARGUMENTS_3   a0, a1, a2
#define PARAMETERS_4  word a0, word a1, word a2, word a3
#define ARGUMENTS_4   a0, a1, a2, a3
#define PARAMETERS_5  word a0, word a1, word a2, word a3, word a4
#define ARGUMENTS_5   a0, a1, a2, a3, a4
#define PARAMETERS_6  word a0, word a1, word a2, word a3, word a4, word a5
#define ARGUMENTS_6   a0, a1, a2, a3, a4, a5
#define PARAMETERS_7  word a0, word a1, word a2, word a3, word a4, word a5, word a6
#define ARGUMENTS_7   a0, a1, a2, a3, a4, a5, a6
#define PARAMETERS_8  word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7
#define ARGUMENTS_8   a0, a1, a2, a3, a4, a5, a6, a7
#define PARAMETERS_9  word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7, word a8
#define ARGUMENTS_9   a0, a1, a2, a3, a4, a5, a6, a7, a8
#define PARAMETERS_10 word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7, word a8, word a9
#define ARGUMENTS_10  a0, a1, a2, a3, a4, a5, a6, a7, a8, a9
#define PARAMETERS_11 word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7, word a8, word a9, word a10
#define ARGUMENTS_11  a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10
#define PARAMETERS_12 \
	word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7, word a8, word a9, word a10, word a11
#define ARGUMENTS_12 a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11
#define PARAMETERS_13                                                                                                 \
	word a0, word a1, word a2, word a3, word a4, word a5, word a6, word a7, word a8, word a9, word a10, word a11, \
	        word a12
#define ARGUMENTS_13 a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12

#define NEXT_INDEX(name, variant) ((size_t)ROW_##name * CALL_NAMES + (variant))
#define HERE                      ((uintptr_t)__builtin_frame_address(0))

#define BODY_WAIT(name, call, group) BODY_BLOCKING(name, CALL_WAIT, call, group)
#define BODY_TIME(name, call, group) BODY_BLOCKING(name, CALL_TIME, call, group)

#define BODY_BLOCKING(name, kind, call, group)                                       \
	uint32_t mode = wait_enter(ROW_##name, kind, group == GROUP_RMA_LOCK, HERE); \
	int code;                                                                    \
                                                                                     \
	if (group == GROUP_INIT)                                                     \
		process_call_begins(ROW_##name);                                     \
	code = call;                                                                 \
	wait_leave(mode);                                                            \
	if (group == GROUP_INIT)                                                     \
		process_call_ended(ROW_##name, code);                                \
	return code;

#define BODY_MARK(name, call, group)                 \
	uint32_t kind = wait_mark(ROW_##name, HERE); \
	int code = call;                             \
                                                     \
	wait_unmark(kind);                           \
	return code;

/* The call itself, after the loop before it, where that has not done the call's work. */
#define INVOKE_WAIT(name, arguments, variant)                                                       \
	({                                                                                          \
		int64_t done = PREWAIT_NOT_DONE;                                                    \
                                                                                                    \
		if (PREWAIT_CAN(ROW_##name) && __builtin_expect(mode & PROCESS_PREWAITS, 0))        \
			done = prewait(ROW_##name, variant, (const word[]){ARGUMENTS_##arguments}); \
		done == PREWAIT_NOT_DONE ? next(ARGUMENTS_##arguments) : (int)done;                 \
	})
#define INVOKE_TIME(name, arguments, variant) next(ARGUMENTS_##arguments)
#define INVOKE_MARK(name, arguments, variant) next(ARGUMENTS_##arguments)

#define WRAPPER(symbol, name, arguments, kind, group, variant)                                \
	__attribute__((visibility("default"))) int symbol(PARAMETERS_##arguments);            \
	int symbol(PARAMETERS_##arguments)                                                    \
	{                                                                                     \
		int (*next)(PARAMETERS_##arguments) =                                         \
		        (int (*)(PARAMETERS_##arguments))next_get(NEXT_INDEX(name, variant)); \
		BODY_##kind(name, INVOKE_##kind(name, arguments, variant), GROUP_##group)     \
	}

#define LARGE(name, arguments, kind, group)                                   \
	WRAPPER(MPI_##name##_c, name, arguments, kind, group, NAME_MPI_LARGE) \
	WRAPPER(PMPI_##name##_c, name, arguments, kind, group, NAME_PMPI_LARGE)
#define PLAIN(name, arguments, kind, group)

#define CALL(name, arguments, kind, large, group)                     \
	WRAPPER(MPI_##name, name, arguments, kind, group, NAME_MPI)   \
	WRAPPER(PMPI_##name, name, arguments, kind, group, NAME_PMPI) \
	large(name, arguments, kind, group)

#include "preload/mpi_calls.def"
