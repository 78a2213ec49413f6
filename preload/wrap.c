/*
 * The wrappers: MPI_X and PMPI_X (and their _c variants) for every row of mpi_calls.def, generated.
 *
 * Invariant: each forwards its arguments, as machine words and unchanged, to the next symbol of its own name. On
 * x86-64, AArch64 and ppc64le Linux an int or a pointer argument fills one register or one 8-byte stack slot, so one
 * definition serves every MPI's handles; and the Fortran bindings call these C functions, by one name or the other.
 */
#include <stdint.h>

#include "preload/calls.h"
#include "preload/keep.h"
#include "preload/large.h"
#include "preload/next.h"
#include "preload/process.h"
#include "preload/sizes.h"
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

/* With something before it, so that it is never empty. */
#define ARGUMENT_ARRAY(arguments) (((const word[]){0, ARGUMENTS_##arguments}) + 1)

#define COMPLETES(signature) ((signature)[0] == 'q' || (signature)[0] == 'k')
#define IS_LARGE(variant)    ((variant) >= NAME_MPI_LARGE)

#define BODY_WAIT(name, call, group, arguments, volume, variant) \
	BODY_BLOCKING(name, CALL_WAIT, call, group, arguments, volume, variant)
#define BODY_TIME(name, call, group, arguments, volume, variant) \
	BODY_BLOCKING(name, CALL_TIME, call, group, arguments, volume, variant)

/* The arguments are set aside under profile only: else they would have to survive every call. */
#define SET_ASIDE(sized, arguments)                      \
	if (sized)                                       \
		aside = (__typeof__(aside))              \
		{                                        \
			{                                \
				0, ARGUMENTS_##arguments \
			}                                \
		}

#define BODY_BLOCKING(name, kind, call, group, arguments, volume, variant)                    \
	uint32_t mode = wait_enter(ROW_##name, kind, group == GROUP_RMA_LOCK, HERE);          \
	bool sized = __builtin_expect(volume != VOLUME_NONE && (mode & PROCESS_PROFILES), 0); \
	struct {                                                                              \
		word at[(arguments) + 1];                                                     \
	} aside;                                                                              \
	int code;                                                                             \
                                                                                              \
	SET_ASIDE(sized, arguments);                                                          \
	if (group == GROUP_INIT)                                                              \
		process_call_begins(ROW_##name);                                              \
	code = call;                                                                          \
	wait_leave(mode);                                                                     \
	if (sized && code == 0)                                                               \
		sizes_count(ROW_##name, IS_LARGE(variant), aside.at + 1);                     \
	if (group == GROUP_INIT)                                                              \
		process_call_ended(ROW_##name, code);

/* Sized if it is not inside of a blocking call, as wait_mark counts it. */
#define BODY_MARK(name, call, group, arguments, volume, variant)                                             \
	uint32_t kind = wait_mark(ROW_##name, HERE);                                                         \
	bool sized = __builtin_expect(                                                                       \
	        volume != VOLUME_NONE && (process_mode() & PROCESS_PROFILES) && wait_self.outer <= HERE, 0); \
	struct {                                                                                             \
		word at[(arguments) + 1];                                                                    \
	} aside;                                                                                             \
	int code;                                                                                            \
                                                                                                             \
	SET_ASIDE(sized, arguments);                                                                         \
	code = call;                                                                                         \
	wait_unmark(kind);                                                                                   \
	if (sized && code == 0)                                                                              \
		sizes_count(ROW_##name, IS_LARGE(variant), aside.at + 1);

#define CALL_PLAIN(index, next, arguments) next(ARGUMENTS_##arguments)

#define CALL_LARGE(index, next, arguments)                                                                          \
	(__builtin_expect((void *)next == (void *)large_stand_in, 0) ? large_call(index, ARGUMENT_ARRAY(arguments)) \
	                                                             : next(ARGUMENTS_##arguments))

#define WRAPPER(symbol, name, arguments, kind, group, signature, volume, variant, how)                              \
	__attribute__((visibility("default"))) int symbol(PARAMETERS_##arguments);                                  \
	int symbol(PARAMETERS_##arguments)                                                                          \
	{                                                                                                           \
		int (*next)(PARAMETERS_##arguments) =                                                               \
		        (int (*)(PARAMETERS_##arguments))next_get(NEXT_INDEX(name, variant));                       \
                                                                                                                    \
		if (COMPLETES(signature) && keep_any())                                                             \
			keep_look(signature, ARGUMENT_ARRAY(arguments));                                            \
		BODY_##kind(name, CALL_##how(NEXT_INDEX(name, variant), next, arguments), GROUP_##group, arguments, \
		            VOLUME_##volume, variant);                                                              \
		if (COMPLETES(signature) && keep_any())                                                             \
			keep_release();                                                                             \
		return code;                                                                                        \
	}

#define LARGE(name, arguments, kind, group, signature, volume)                                          \
	WRAPPER(MPI_##name##_c, name, arguments, kind, group, signature, volume, NAME_MPI_LARGE, LARGE) \
	WRAPPER(PMPI_##name##_c, name, arguments, kind, group, signature, volume, NAME_PMPI_LARGE, LARGE)
#define PLAIN(name, arguments, kind, group, signature, volume)

#define CALL(name, arguments, kind, large, group, signature, volume)                            \
	WRAPPER(MPI_##name, name, arguments, kind, group, signature, volume, NAME_MPI, PLAIN)   \
	WRAPPER(PMPI_##name, name, arguments, kind, group, signature, volume, NAME_PMPI, PLAIN) \
	large(name, arguments, kind, group, signature, volume)

#include "preload/mpi_calls.def"
