/*
 * The submitter's side, in srun, sbatch and salloc, as the user: refuse what is wrong before there is a job, answer
 * "help", and tell the job's nodes what was decided.
 */
#pragma once

#include <slurm/spank.h>

#include "spank/policy/site.h"

/* The name under which the decision reaches prolog and epilog (Slurm puts "SPANK_" in front), and users set a default.
 */
#define CLIENT_VARIABLE "MPI_WAIT_POLICY"

/* Where Slurm leaves the option of a job for the commands inside of it. */
#define CLIENT_OPTION_VARIABLE "_SLURM_SPANK_OPTION_mpi_wait_mpi_wait_policy"

/*
 * To be called before Slurm reads the options from the environment. In sbatch and salloc takes the option away that an
 * outer job has left there, if MPI_WAIT_POLICY is set: the variable is nearer to the new job. srun keeps it, whose step
 * belongs to the job that has the option.
 */
void client_forget_outer_job(void);

/* Prints the answer to "help" on standard output and exits with status 0. */
void client_help(const struct site *site);

/*
 * Resolves option (NULL: not given) and the submitter's environment. Does not return when the value is wrong (exit
 * status 1, message on standard error): Slurm ignores the failure of an optional plugin, so that only leaving stops the
 * submission.
 */
void client_resolve(spank_t spank, const struct site *site, const char *option);
