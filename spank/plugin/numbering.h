/*
 * Asks slurmstepd which CPUs Slurm's core numbers stand for on this node.
 *
 * slurmstepd has slurmd's numbering and exports the function by which task/cgroup makes a cpuset of a job's cores. It
 * knows what no library can: what slurm.conf says of the node, and how slurmd has reconciled that with the machine.
 */
#pragma once

#include "spank/machine/topology.h"

/*
 * Asks slurmstepd for the CPUs of each of its cores and numbers the topology accordingly. directory: where the node's
 * number of cores is kept where only a failed question, which Slurm logs, could tell it; "" for nowhere. Returns 0;
 * -ENOSYS where this process exports no such function, -E2BIG where several of Slurm's cores lie on one CPU, -EINVAL or
 * -ENOMEM; the numbering stays unknown then.
 */
int numbering_ask(struct topology *topology, const char *directory, struct error *error);

/* Returns the path of the slurm.conf that slurmd has read. */
const char *numbering_configuration(void);
