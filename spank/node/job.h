/*
 * A job begins and ends on a node: what job_prolog and job_epilog do, in Slurm's helper process or, for sites where
 * Slurm does not call those (PrologFlags=RunInJob), in "mpi-wait-node prolog|epilog" with the same environment.
 *
 * As root, job ids and node list from the environment that slurmd made. Local I/O only; nothing here can fail the job.
 */
#pragma once

#include "spank/policy/site.h"

/* words: the job's own option, NULL for none. Makes the node state if a policy holds for the job. */
void node_job_prolog(const struct site *site, const char *words);

/* First of all in the epilog: the frequency domains that the job still holds are put back, whether its slurmstepds are
 * alive or not. Logs. */
void node_job_revoke(void);

/*
 * Notes the job's end and starts mpi-wait-node detached with the same arguments, which makes the record and brings it
 * on: the epilog itself waits for no disk. words as for the prolog: a node on which no step ran may have had no prolog
 * either, and still belongs to the job.
 */
void node_job_epilog(const struct site *site, const char *words, int argument_count, char *const arguments[]);
