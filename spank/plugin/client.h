/*
 * Client: the submitter's side, in srun, sbatch and salloc, as the user. It refuses a wrong option before there is a
 * job, answers "help", and hands the decision to the job's nodes.
 */
#pragma once

#include <slurm/spank.h>

#include "spank/policy/site.h"

/*
 * The variable by which the decision reaches prolog and epilog (Slurm puts "SPANK_" in front). Users set their default
 * in it.
 */
#define CLIENT_VARIABLE "MPI_WAIT_POLICY"

/* The variable in which Slurm leaves the option of a job for the commands inside the job. */
#define CLIENT_OPTION_VARIABLE "_SLURM_SPANK_OPTION_mpi_wait_mpi_wait_policy"

/*
 * Removes the option that an outer job has left in the environment of sbatch or salloc, if MPI_WAIT_POLICY is set: the
 * variable is nearer to the new job. Keeps the option in srun, whose step belongs to the job that has the option. Must
 * be called before Slurm reads the options from the environment.
 */
void client_forget_outer_job(void);

/*
 * Answers "help" on standard output, when Slurm reads the option. Exits with status 0, unless srun has further words
 * and the site has policies by program: then client_help_program must follow, when Slurm knows the command.
 */
void client_help(const struct site *site);

/* Says which policy srun's command would get by its program, and exits with status 0. */
_Noreturn void client_help_program(const struct site *site);

/*
 * Resolves option (NULL: not given) and the submitter's environment. A wrong value ends the process with status 1 and a
 * message on standard error: Slurm ignores the failure of an optional plugin, so only leaving stops the submission.
 */
void client_resolve(spank_t spank, const struct site *site, const char *option);
