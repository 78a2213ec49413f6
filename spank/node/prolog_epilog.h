/*
 * Prolog and epilog: what job_prolog and job_epilog do when a job begins and ends on a node. They run in Slurm's helper
 * process, or in "mpi-wait-node prolog|epilog" with the same environment, for sites where Slurm does not call them
 * (PrologFlags=RunInJob).
 *
 * They run as root, and take job id and node list from slurmd's environment. They do local I/O only, and cannot fail
 * the job.
 */
#pragma once

#include "spank/policy/site.h"

/* Makes the node's state of the job if a policy holds for it. words: the job's own option, NULL if it gave none. */
void node_job_prolog(const struct site *site, const char *words);

/*
 * Restores the frequency domains that the job still holds, even if its slurmstepds live. The epilog's first action.
 * Logs.
 */
void node_job_revoke(void);

/*
 * Notes the job's end and starts "mpi-wait-node" in the background with the same arguments, which makes and delivers
 * the record: the epilog waits for no disk. words: as for the prolog. A node on which no step ran may have had no
 * prolog; its state is made here.
 */
void node_job_epilog(const struct site *site, const char *words, int argument_count, char *const arguments[]);
