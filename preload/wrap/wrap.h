/*
 * One wrapper of an MPI function, and what it is made of. wrap/mpi.c has MPI_X and its _c variant for every row of
 * mpi_calls.def, wrap/pmpi.c has PMPI_X: two files, since compiling them takes longest of all.
 *
 * Invariant: each forwards its arguments, as machine words and unchanged, to the next symbol of its own name. On
 * x86-64, AArch64 and ppc64le Linux an int or a pointer argument fills one register or one 8-byte stack slot, so one
 * definition serves every MPI's handles; and the Fortran bindings call these C functions, by one name or the other.
 */
#pragma once

#include <stdint.h>

#include "preload/mpi/calls.h"
#include "preload/mpi/forward.h"
#include "preload/mpi/next.h"
#include "preload/process/phase.h"
#include "preload/process/process.h"
#include "preload/wait/entry.h"
#include "preload/wait/loop.h"
#include "preload/wait/presleep.h"
#include "preload/wait/wait.h"
#include "preload/wrap/prewait.h"
#include "preload/wrap/sizes.h"
#include "preload/wrap/start.h"

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
#define CALLER                    ((uintptr_t)__builtin_return_address(0))

/* The argument with that letter; of Barrier, whose signature is empty, the only one is the communicator. 0: there is
 * none. */
#define GIVEN(name, signature, letter, arguments)                                                                \
	(__builtin_strchr(signature, letter)            ? ARGUMENT_ARRAY(arguments)[sizes_at(signature, letter)] \
	 : ROW_##name == ROW_Barrier && (letter) == 'c' ? ARGUMENT_ARRAY(arguments)[(arguments) > 0 ? 0 : -1]    \
	                                                : 0)
#define TELL(name, signature, arguments) \
	wait_tell(GIVEN(name, signature, 'c', arguments), GIVEN(name, signature, 'p', arguments))

/* With something before it, so that it is never empty. */
#define ARGUMENT_ARRAY(arguments) (((const word[]){0, ARGUMENTS_##arguments}) + 1)

#define IS_LARGE(variant) ((variant) >= NAME_MPI_LARGE)

/* Whether a call that asks found nothing. */
#define IS_VAIN(name, arguments, code) \
	((code) == 0 && *(const int *)(ARGUMENT_ARRAY(arguments)[LOOP_FLAG(ROW_##name)]) == 0)

#define BODY_WAIT(name, call, group, arguments, signature, volume, variant) \
	BODY_BLOCKING(name, CALL_WAIT, call, group, arguments, signature, volume, variant)
#define BODY_TIME(name, call, group, arguments, signature, volume, variant) \
	BODY_BLOCKING(name, CALL_TIME, call, group, arguments, signature, volume, variant)

/* The arguments are set aside under profile only: else they would have to survive every call. */
#define SET_ASIDE(sized, arguments)                      \
	if (sized)                                       \
		aside = (__typeof__(aside))              \
		{                                        \
			{                                \
				0, ARGUMENTS_##arguments \
			}                                \
		}

#define BODY_BLOCKING(name, kind, call, group, arguments, signature, volume, variant)         \
	uint32_t mode = wait_enter(ROW_##name, kind, group == GROUP_RMA_LOCK, HERE);          \
	bool sized = __builtin_expect(volume != VOLUME_NONE && (mode & PROCESS_PROFILES), 0); \
	struct {                                                                              \
		word at[(arguments) + 1];                                                     \
	} aside;                                                                              \
	int code;                                                                             \
                                                                                              \
	if ((kind) == CALL_WAIT && mode != PROCESS_INERT)                                     \
		TELL(name, signature, arguments);                                             \
	SET_ASIDE(sized, arguments);                                                          \
	if (group == GROUP_INIT)                                                              \
		start_call_begins(ROW_##name);                                                \
	code = call;                                                                          \
	wait_leave(mode);                                                                     \
	if (sized && code == 0)                                                               \
		sizes_count(ROW_##name, IS_LARGE(variant), aside.at + 1);                     \
	if (group == GROUP_INIT)                                                              \
		start_call_ended(ROW_##name, code);

/* Sized if it is not inside of a blocking call, as wait_mark counts it. */
#define BODY_MARK(name, call, group, arguments, signature, volume, variant)                                  \
	bool loops = LOOP_FLAG(ROW_##name) >= 0 && __builtin_expect(process_mode() & PROCESS_LOOPS, 0);      \
	uint32_t kind = wait_mark(ROW_##name, loops, HERE);                                                  \
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
	if (loops)                                                                                           \
		loop_leave(IS_VAIN(name, arguments, code));                                                  \
	if (sized && code == 0)                                                                              \
		sizes_count(ROW_##name, IS_LARGE(variant), aside.at + 1);

/* PROCESS_PREWAITS or PROCESS_PRESLEEPS, as calls of that row allow: a constant where the row is one. */
#define BEFORE(row) ((PREWAIT_CAN(row) ? PROCESS_PREWAITS : 0) | (PRESLEEP_CAN(row) ? PROCESS_PRESLEEPS : 0))

/* The call itself, after a sleep or the loop before it, where that has not done the call's work. */
#define INVOKE_WAIT(name, call, arguments, variant)                                             \
	({                                                                                      \
		int64_t done = PREWAIT_NOT_DONE;                                                \
                                                                                                \
		if (__builtin_expect(mode & BEFORE(ROW_##name), 0)) {                           \
			if (mode & BEFORE(ROW_##name) & PROCESS_PRESLEEPS)                      \
				presleep_begin(IS_LARGE(variant), ARGUMENT_ARRAY(arguments));   \
			else if (PREWAIT_CAN(ROW_##name))                                       \
				done = prewait(ROW_##name, variant, ARGUMENT_ARRAY(arguments)); \
		}                                                                               \
		done == PREWAIT_NOT_DONE ? (call) : (int)done;                                  \
	})
#define INVOKE_TIME(name, call, arguments, variant) (call)
#define INVOKE_MARK(name, call, arguments, variant) (call)

/* Most calls: the library acts, and has nothing to prepare, to look at or to set aside for this one. */
#define SHORT_WAIT(name, arguments, kind, group, signature)                         \
	if (wait_is_short(ROW_##name)) {                                            \
		int code;                                                           \
                                                                                    \
		wait_begin(ROW_##name, CALL_##kind, group == GROUP_RMA_LOCK, HERE); \
		if (CALL_##kind == CALL_WAIT)                                       \
			TELL(name, signature, arguments);                           \
		code = next(ARGUMENTS_##arguments);                                 \
		wait_end();                                                         \
		return code;                                                        \
	}
#define SHORT_TIME(name, arguments, kind, group, signature) SHORT_WAIT(name, arguments, kind, group, signature)
#define SHORT_MARK(name, arguments, kind, group, signature) \
	if (mark_is_short()) {                              \
		wait_self.lane->calls[ROW_##name].calls++;  \
		return next(ARGUMENTS_##arguments);         \
	}

/* The same under profile, with a size or with none. */
#define TIMED_WAIT(name, arguments, kind, group, signature)                 \
	uint64_t began;                                                     \
                                                                            \
	if (CALL_##kind == CALL_WAIT)                                       \
		TELL(name, signature, arguments);                           \
	wait_begin(ROW_##name, CALL_##kind, group == GROUP_RMA_LOCK, HERE); \
	began = clock_mark();                                               \
	code = next(ARGUMENTS_##arguments);                                 \
	watch_time(ROW_##name, clock_since_ns(began));                      \
	wait_end();
#define TIMED_TIME(name, arguments, kind, group, signature) TIMED_WAIT(name, arguments, kind, group, signature)
#define TIMED_MARK(name, arguments, kind, group, signature) \
	wait_self.lane->calls[ROW_##name].calls++;          \
	code = next(ARGUMENTS_##arguments);                 \
	if (LOOP_FLAG(ROW_##name) >= 0)                     \
		loop_time(ROW_##name, IS_VAIN(name, arguments, code));

#define IS_TIMED_WAIT(name) watch_is_short(ROW_##name)
#define IS_TIMED_TIME(name) watch_is_short(ROW_##name)
#define IS_TIMED_MARK(name) mark_is_timed()

#define TIMED(symbol, name, arguments, kind, group, signature, volume, variant)                                       \
	static __attribute__((noinline)) int symbol##_timed(PARAMETERS_##arguments)                                   \
	{                                                                                                             \
		const word given[] = {0, ARGUMENTS_##arguments};                                                      \
		const bool sized = VOLUME_##volume != VOLUME_NONE;                                                    \
		const bool has_peer = sized && __builtin_strchr(signature, 'p');                                      \
		const word counted = sized ? given[sizes_at(signature, 'n') + 1] : 0;                                 \
		const word peer = has_peer ? given[sizes_at(signature, 'p') + 1] : counted;                           \
		const int64_t count = sizes_count_of(IS_LARGE(variant) ? (int64_t)counted : (int)counted, peer);      \
		const size_t place = has_peer && GROUP_##group == GROUP_P2P                                           \
		                             ? sizes_place_of(given[sizes_at(signature, 'c') + 1], (uint32_t)peer)    \
		                             : MPIWAIT_NOWHERE;                                                       \
		int code;                                                                                             \
                                                                                                                      \
		if (!IS_TIMED_##kind(name))                                                                           \
			return symbol##_long(ARGUMENTS_##arguments);                                                  \
		int (*next)(PARAMETERS_##arguments) =                                                                 \
		        (int (*)(PARAMETERS_##arguments))next_look(NEXT_INDEX(name, variant));                        \
		TIMED_##kind(name, arguments, kind, GROUP_##group, signature);                                        \
		if (sized && code == 0)                                                                               \
			sizes_count_simple(ROW_##name, IS_LARGE(variant), count, given[sizes_at(signature, 't') + 1], \
			                   place);                                                                    \
		return code;                                                                                          \
	}

#define IS_SPECIAL(group, next) (group == GROUP_INIT || !next)

#define IS_TIMED(signature, volume) \
	(process_mode() == PROCESS_TIMES && ((volume) == VOLUME_NONE || sizes_is_simple(signature, volume)))

/* All have the same signature, so that the ways to symbol_timed and symbol_long are mere jumps. */
#define WRAPPER(symbol, name, arguments, kind, group, signature, volume, variant)              \
	LONG(symbol, name, arguments, kind, group, signature, volume, variant)                 \
	TIMED(symbol, name, arguments, kind, group, signature, volume, variant)                \
	__attribute__((visibility("default"))) int symbol(PARAMETERS_##arguments);             \
	int symbol(PARAMETERS_##arguments)                                                     \
	{                                                                                      \
		int (*next)(PARAMETERS_##arguments) =                                          \
		        (int (*)(PARAMETERS_##arguments))next_look(NEXT_INDEX(name, variant)); \
                                                                                               \
		if (__builtin_expect(IS_SPECIAL(GROUP_##group, next), 0))                      \
			return symbol##_long(ARGUMENTS_##arguments);                           \
		if (process_mode() == PROCESS_INERT)                                           \
			return next(ARGUMENTS_##arguments);                                    \
		SHORT_##kind(name, arguments, kind, GROUP_##group, signature);                 \
		if (IS_TIMED(signature, VOLUME_##volume))                                      \
			return symbol##_timed(ARGUMENTS_##arguments);                          \
		return symbol##_long(ARGUMENTS_##arguments);                                   \
	}

/*
 * A function that next_table lacks may be a tool's, and the call one that the tool brings back (forward.h). The wrapper
 * jumps here, so that its caller is ours.
 */
#define NEXT_BEGIN(name, variant, call)                                                                             \
	struct forward outer = {.frame = FORWARD_NONE};                                                             \
                                                                                                                    \
	if (__builtin_expect(!next, 0)) {                                                                           \
		next = (__typeof__(next))forward_begin(NEXT_INDEX(name, variant),                                   \
		                                       next_find(NEXT_INDEX(name, variant)), HERE, CALLER, &outer); \
		if (outer.frame == FORWARD_BACK)                                                                    \
			return call;                                                                                \
	}
#define NEXT_END                                              \
	if (__builtin_expect(outer.frame != FORWARD_NONE, 0)) \
	forward_end(&outer)

#define LONG(symbol, name, arguments, kind, group, signature, volume, variant)                                         \
	static __attribute__((noinline)) int symbol##_long(PARAMETERS_##arguments)                                     \
	{                                                                                                              \
		int (*next)(PARAMETERS_##arguments) =                                                                  \
		        (int (*)(PARAMETERS_##arguments))next_look(NEXT_INDEX(name, variant));                         \
		NEXT_BEGIN(name, variant, next(ARGUMENTS_##arguments))                                                 \
                                                                                                                       \
		BODY_##kind(name, INVOKE_##kind(name, next(ARGUMENTS_##arguments), arguments, variant), GROUP_##group, \
		            arguments, signature, VOLUME_##volume, variant);                                           \
		NEXT_END;                                                                                              \
		return code;                                                                                           \
	}

/*
 * MPI_Pcontrol(level, ...). What follows the level is for the tool behind us, of any number and any type. All registers
 * in which arguments may lie are named here, and handed on by a call of the variadic type: only by that is the callee
 * told on x86-64, in al, that there may be floating-point numbers. On ppc64le the words have these too. What a caller
 * had to put on its stack, more than five arguments after the level, is not handed on.
 */
#if defined(__x86_64__) || defined(__aarch64__)
#define REST_FLOATS       , double f0, double f1, double f2, double f3, double f4, double f5, double f6, double f7
#define REST_FLOATS_GIVEN , f0, f1, f2, f3, f4, f5, f6, f7
#else
#define REST_FLOATS
#define REST_FLOATS_GIVEN
#endif

#define VARIADIC_WRAPPER(symbol, name, variant)                                                  \
	__attribute__((visibility("default"))) int symbol(PARAMETERS_6 REST_FLOATS);             \
	int symbol(PARAMETERS_6 REST_FLOATS)                                                     \
	{                                                                                        \
		int (*next)(int, ...) = (int (*)(int, ...))next_look(NEXT_INDEX(name, variant)); \
		NEXT_BEGIN(name, variant, next((int)a0, a1, a2, a3, a4, a5 REST_FLOATS_GIVEN))   \
		uint32_t kind = wait_mark(ROW_##name, false, HERE);                              \
		int code = next((int)a0, a1, a2, a3, a4, a5 REST_FLOATS_GIVEN);                  \
                                                                                                 \
		wait_unmark(kind);                                                               \
		NEXT_END;                                                                        \
		if (code == 0)                                                                   \
			phase_tell((int)a0);                                                     \
		return code;                                                                     \
	}

/*
 * A function that not every MPI has: in the library's file its name stands under a version that no program asks for, so
 * that nothing finds it until names.c has seen that this MPI has it.
 */
#define LATER_WRAPPER(symbol, name, arguments, kind, group, signature, volume, variant)   \
	WRAPPER(later_##symbol, name, arguments, kind, group, signature, volume, variant) \
	__asm__(".symver later_" #symbol ", " #symbol "@MPIWAIT_LATER");
