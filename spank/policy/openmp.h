/*
 * How the OpenMP threads of a rank wait while its own thread waits in MPI: the variables that their runtimes read for
 * it. Pure but for openmp_spins_measure.
 *
 *     runtime                          reads                                       a bound of 1 ms
 *     GNU                              OMP_WAIT_POLICY, GOMP_SPINCOUNT             GOMP_SPINCOUNT: turns of its loop
 *     LLVM, and those made from it     OMP_WAIT_POLICY, KMP_BLOCKTIME, KMP_LIBRARY KMP_BLOCKTIME: milliseconds
 *     (Intel, AMD, NVIDIA)
 *     any other                        OMP_WAIT_POLICY                             none
 *
 * All releases of LLVM's runtime read a number without a unit as milliseconds.
 *
 * Invariant: a runtime is told something only where the user has set none of the variables that it reads for this.
 * OMP_WAIT_POLICY is said only where the user has set none at all, since it speaks to every runtime.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/policy/site.h"

/* In the task's environment: what is ours there, as NAME=VALUE with blanks between them. */
#define OPENMP_VARIABLE "MPI_WAIT_THREADS"

#define OPENMP_TEXT_MAX  128 /* bytes of that, its NUL included */
#define OPENMP_VALUE_MAX 24

enum openmp_variable {
	OPENMP_WAIT_POLICY,
	OPENMP_GNU_SPINCOUNT,
	OPENMP_LLVM_BLOCKTIME,
	OPENMP_LLVM_LIBRARY,
	OPENMP_VARIABLES
};

struct openmp_settings {
	char value[OPENMP_VARIABLES][OPENMP_VALUE_MAX]; /* "": it is not set */
	char text[OPENMP_TEXT_MAX];                     /* all of them, as OPENMP_VARIABLE has them */
};

const char *openmp_name(enum openmp_variable variable);

/*
 * What to set where the user has set those variables (bit per enum openmp_variable). spins: turns of GNU's loop in the
 * bound.
 */
void openmp_choose(enum site_threads threads, uint32_t set, uint64_t spins, struct openmp_settings *ret_settings);

/* Whether such a text says that this value of that variable is ours. */
bool openmp_is_ours(const char *text, enum openmp_variable variable, const char *value);

/*
 * Whether a program only starts ranks on its node: Open MPI's and MPICH's daemons. What the user gave mpirun for the
 * ranks is not in their own environment, so nothing can be told from that.
 */
bool openmp_is_daemon(const char *program);

/* How many turns GNU's loop makes here in the bound, to two digits. Takes 100 microseconds. */
uint64_t openmp_spins_measure(void);

/* The same from what so many turns took. */
uint64_t openmp_spins_of(uint64_t turns, uint64_t took_ns);
