/*
 * Asks slurmstepd which CPUs Slurm's core numbers stand for on this node.
 *
 * slurmstepd has slurmd's numbering and exports the function by which task/cgroup makes a cpuset of a job's cores. No
 * library knows that numbering: it depends on what slurm.conf says about the node, and on how slurmd reconciled that
 * with the machine.
 */
#pragma once

#include "spank/machine/topology.h"

/*
 * Asks slurmstepd for the CPUs of each of its cores and numbers the topology accordingly. directory ("": none) keeps
 * the node's number of cores if only a failed question, which Slurm logs, could tell it. Returns 0; -ENOSYS if this
 * process exports no such function, -E2BIG if several of Slurm's cores lie on one CPU, -EINVAL or -ENOMEM. After an
 * error the numbering stays unknown.
 */
int numbering_ask(struct topology *topology, const char *directory, struct error *error);

/* Returns the path of the slurm.conf that slurmd has read. */
const char *numbering_configuration(void);
