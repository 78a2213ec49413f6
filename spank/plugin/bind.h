/*
 * Binds one task to its cores, after Slurm has done what it does and before the program starts.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "spank/base/error.h"
#include "spank/machine/topology.h"
#include "spank/policy/plan.h"

/*
 * Binds the task (blocked before exec) to its part of core_list, unless it was bound already. The CPUs are those that
 * it may use now and the plan gives it: never more than Slurm gave. Returns 1 bound, 0 left as it was, negative errno.
 */
int bind_task(const struct topology *topology, const struct plan *plan, const char *core_list, uint32_t local_task,
              pid_t pid, struct error *error);
