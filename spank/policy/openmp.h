/*
 * Chooses the environment variables that tell OpenMP runtimes how idle threads wait, for ranks whose own thread waits
 * in MPI. Pure but for openmp_spins_measure.
 *
 *     runtime                          reads                                       a bound of 1 ms
 *     GNU                              OMP_WAIT_POLICY, GOMP_SPINCOUNT             GOMP_SPINCOUNT: turns of its loop
 *     LLVM, and those made from it     OMP_WAIT_POLICY, KMP_BLOCKTIME, KMP_LIBRARY KMP_BLOCKTIME: milliseconds
 *     (Intel, AMD, NVIDIA)
 *     any other                        OMP_WAIT_POLICY                             none
 *
 * Every release of LLVM's runtime reads a number without a unit as milliseconds.
 *
 * Invariant: a runtime's variable is set only if the user has set none of the variables that this runtime reads.
 * OMP_WAIT_POLICY, which every runtime reads, is set only if the user has set none of all these variables.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spank/policy/site.h"

/* Lists, in the task's environment, the variables that this plugin has set, as NAME=VALUE with blanks between them. */
#define OPENMP_VARIABLE "MPI_WAIT_THREADS"

#define OPENMP_COUNT "OMP_NUM_THREADS" /* how many threads the task's regions have */

#define OPENMP_TEXT_MAX  128 /* bytes of that list, its NUL included */
#define OPENMP_VALUE_MAX 24  /* bytes of one value, its NUL included */

enum openmp_variable {
	OPENMP_WAIT_POLICY,
	OPENMP_GNU_SPINCOUNT,
	OPENMP_LLVM_BLOCKTIME,
	OPENMP_LLVM_LIBRARY,
	OPENMP_VARIABLES
};

struct openmp_settings {
	char value[OPENMP_VARIABLES][OPENMP_VALUE_MAX]; /* by variable; "": it is not set */
	char text[OPENMP_TEXT_MAX];                     /* all that are set, as OPENMP_VARIABLE lists them */
};

/* Returns the variable's name in the environment. */
const char *openmp_name(enum openmp_variable variable);

/*
 * Returns how the threads of a task shall wait: passive in place of bounded if the task has more threads than CPUs. A
 * thread that spins then keeps another one of its rank from the core. count: the value of OMP_NUM_THREADS, whose first
 * number is that of the outer region's threads; "": not set. cpus: number of the task's CPUs, 0: unknown.
 */
enum site_threads openmp_waits(enum site_threads threads, const char *count, uint32_t cpus);

/*
 * Chooses the variables to set. `set` has a bit, by enum openmp_variable, for each variable that the user has set.
 * `spins` is how many turns GNU's loop makes in the bound.
 */
void openmp_choose(enum site_threads threads, uint32_t set, uint64_t spins, struct openmp_settings *ret_settings);

/* Returns true if text, a value of OPENMP_VARIABLE, lists the variable with this value. */
bool openmp_is_ours(const char *text, enum openmp_variable variable, const char *value);

/*
 * Returns true if the program only starts ranks on its node: Open MPI's and MPICH's daemons. Their environment does not
 * tell what the user set: variables that the user gave mpirun for the ranks are not in it.
 */
bool openmp_is_daemon(const char *program);

/* Returns how many turns GNU's loop makes in the bound on this CPU, to two digits. Takes about 100 us. */
uint64_t openmp_spins_measure(void);

/* Returns the same, given that `turns` took took_ns. */
uint64_t openmp_spins_of(uint64_t turns, uint64_t took_ns);
