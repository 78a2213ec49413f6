/*
 * The parts that the wrappers of MPI functions share. make_wrappers.py makes the wrappers from mpi_calls.def and
 * wrapper.c.in: MPI_X and its _c variant for every row in one file, PMPI_X in another, because compiling them takes
 * longest of all.
 *
 * Invariant: each wrapper passes its arguments, as machine words and unchanged, to the next symbol of its own name. On
 * x86-64, AArch64 and ppc64le Linux an int or a pointer argument fills one register or one 8-byte stack slot. So one
 * definition serves every MPI's handles. The Fortran bindings call these C functions, by one name or the other.
 *
 * A wrapper has up to three ways. They have the same signature, so that going from one to another is a mere jump:
 *
 *     its own name   most calls: the library acts, and has nothing to prepare, to check or to set aside for this one
 *     NAME_timed     the same under profile, with a size or with none
 *     NAME_long      all other calls. A function that next_table lacks may be a tool's, and the call one that the tool
 *                    brings back (forward.h). Arguments are set aside under profile only: otherwise they would have to
 *                    survive every call.
 *
 * The wrapper of a function that not every MPI has is called later_NAME. In the library's file its symbol has a version
 * that no program asks for, so that nothing finds it until names.c has seen that this MPI has the function.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "preload/mpi/calls.h"
#include "preload/mpi/forward.h"
#include "preload/mpi/next.h"
#include "preload/mpi/query.h"
#include "preload/process/clock.h"
#include "preload/process/process.h"
#include "preload/wait/entry.h"
#include "preload/wait/loop.h"
#include "preload/wait/presleep.h"
#include "preload/wait/wait.h"
#include "preload/wrap/prewait.h"
#include "preload/wrap/sizes.h"
#include "preload/wrap/start.h"

typedef uintptr_t word;

/* Functions by the number of their arguments. */
typedef int function_0(void);
typedef int function_1(word);
typedef int function_2(word, word);
typedef int function_3(word, word, word);
typedef int function_4(word, word, word, word);
typedef int function_5(word, word, word, word, word);
typedef int function_6(word, word, word, word, word, word);
typedef int function_7(word, word, word, word, word, word, word);
typedef int function_8(word, word, word, word, word, word, word, word);
typedef int function_9(word, word, word, word, word, word, word, word, word);
typedef int function_10(word, word, word, word, word, word, word, word, word, word);
typedef int function_11(word, word, word, word, word, word, word, word, word, word, word);
typedef int function_12(word, word, word, word, word, word, word, word, word, word, word, word);
typedef int function_13(word, word, word, word, word, word, word, word, word, word, word, word, word);

#define HERE   ((uintptr_t)__builtin_frame_address(0))
#define CALLER ((uintptr_t)__builtin_return_address(0))

/* Finds the function for a call for which next_table has nothing, and begins that call as forward_begin does. */
static inline void *call_find(enum call_row row, enum call_name name, uintptr_t here, uintptr_t caller,
                              struct forward *ret_outer)
{
	size_t index = row * CALL_NAMES + name;

	return forward_begin(index, next_find(index), here, caller, ret_outer);
}

/*
 * Notes what tells the open call from others: the lower halves of both words. An int, as MPICH's handles and a peer
 * are, fills no more of its word. Clang stores no more of it on the stack: the other half is left of earlier calls, and
 * differs from call to call. The upper halves in wait_self stay zero.
 */
static inline __attribute__((always_inline)) void call_tell(word comm, word peer)
{
	uint32_t halves[] = {(uint32_t)comm, (uint32_t)peer};

	memcpy(&wait_self.handle, &halves[0], sizeof(halves[0]));
	memcpy(&wait_self.peer, &halves[1], sizeof(halves[1]));
}

/* Returns which of PROCESS_PREWAITS and PROCESS_PRESLEEPS may be done before a call of the row. */
static inline __attribute__((always_inline)) uint32_t call_preparations(uint32_t mode, enum call_row row)
{
	return mode & ((PREWAIT_CAN(row) ? PROCESS_PREWAITS : 0) | (PRESLEEP_CAN(row) ? PROCESS_PRESLEEPS : 0));
}

/* Sleeps before the call, for which the MPI is asked about the whole handle. */
static __attribute__((noinline)) void call_presleep(enum call_row row, bool large, const word *arguments)
{
	struct call_shape shape;

	call_shape_get(row, &shape);
	wait_tell(query_handle(&arguments[shape.handle], 0), wait_self.peer);
	presleep_begin(large, arguments);
	wait_tell((uint32_t)wait_self.handle, wait_self.peer);
}

/*
 * Sleeps before the call, or does its work in a loop. Returns the MPI error code of a call that is done, else
 * PREWAIT_NOT_DONE.
 */
static inline __attribute__((always_inline)) int64_t call_prepare(uint32_t mode, enum call_row row, enum call_name name,
                                                                  const word *arguments)
{
	if (!(call_preparations(mode, row) & PROCESS_PRESLEEPS))
		return prewait(row, name, arguments);
	call_presleep(row, name >= NAME_MPI_LARGE, arguments);
	return PREWAIT_NOT_DONE;
}

/* Returns true if the size of a MARK call counts: the call is not inside of a blocking one, as for wait_mark. */
static inline __attribute__((always_inline)) bool call_is_profiled(uintptr_t here)
{
	return (process_mode() & PROCESS_PROFILES) && wait_self.outer <= here;
}

/*
 * Hides the calls that are made inside a MARK call, as if it were a blocking one, if `hides` is true. A tool's call of
 * the PMPI function is the program's, which has been counted; ROMIO's calls are its own. Returns the value for
 * call_show.
 */
static inline __attribute__((always_inline)) uintptr_t call_hide(bool hides, uintptr_t here)
{
	uintptr_t before = wait_self.outer;

	if (hides && before == 0) {
		wait_self.outer = here;
		wait_self.polls = wait_self.loop.open ? wait_self.polls : 0;
	}
	return before;
}

static inline __attribute__((always_inline)) void call_show(uintptr_t before)
{
	wait_self.outer = before;
}

/* Returns true if a call that asks found nothing. code: its error code; flag: the address of its flag. */
static inline __attribute__((always_inline)) bool call_is_vain(int code, word flag)
{
	return code == 0 && *(const int *)flag == 0;
}
