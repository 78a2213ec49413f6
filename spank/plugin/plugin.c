/*
 * The SPANK callbacks: which stages run where, in which order and as whom. What a stage does is in its own file.
 *
 *     callback             process                   as        stages
 *     init                 all                       -         client: an outer job's option; register ours
 *     init_post_opt        srun, sbatch, salloc      the user  client: refuse, help, promote
 *     init_post_opt        slurmstepd                root      step: job, policy, topology, segment, grant, sampler
 *     task_post_fork       slurmstepd, tasks block   root      bind, grant
 *     task_init            the task, before exec     the user  inject
 *     task_exit            slurmstepd                root      the task's part of the grant ends
 *     exit                 slurmstepd, job runs      root      step: sums, sampler stopped, grant ended
 *     job_prolog           a process of its own      root      node state, energy baseline
 *     job_epilog           a process of its own      root      grants undone, node record, detached writer
 *
 * Nothing here fails a job or a node: every remote callback returns ESPANK_SUCCESS whatever happens.
 */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/log.h"
#include "spank/node/prolog_epilog.h"
#include "spank/plugin/client.h"
#include "spank/plugin/step.h"
#include "spank/policy/options.h"
#include "spank/policy/site.h"

/* Slurm defines the arguments of the callbacks; not every callback uses them. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

SPANK_PLUGIN(mpi_wait, 1)

static char option_text[OPTIONS_TEXT_MAX + 1];
static bool option_was_given;   /* also true for an empty text, which is an unset variable's */
static int site_argument_count; /* number of words in plugstack.conf: the option's callback is not told them */
static char **site_arguments;
static struct site site;          /* the site's arguments, valid after read_site */
static unsigned line_count;       /* lines of plugstack.conf that name the plugin, 0 in prolog and epilog */
static struct step *current_step; /* the step, in slurmstepd and copied into each task; NULL: no policy here */

static void log_to_slurm(enum log_level level, const char *line)
{
	if (level == LOG_LEVEL_ERROR)
		slurm_error("%s", line);
	else if (level == LOG_LEVEL_INFO)
		slurm_info("%s", line);
	else
		slurm_debug("%s", line);
}

/*
 * Parses the site's arguments. If they are wrong, logs why and returns false: the plugin does nothing in this process.
 */
static bool read_site(int argument_count, char **arguments)
{
	struct error error = {""};

	log_set_sink(log_to_slurm);
	if (site_parse(argument_count, arguments, &site, &error) == 0)
		return true;
	log_error("%s; the plugin does nothing; spank-mpi-wait(8) has the arguments", error.text);
	return false;
}

/*
 * Returns true if the callback, which has been called *calls times before, is called for the first line of
 * plugstack.conf that names the plugin. Slurm calls a callback for each such line in turn, but loads the object, and
 * with it what is kept here, once. Further lines have no effect.
 */
static bool is_first_line(unsigned *calls)
{
	unsigned before = (*calls)++;

	return line_count ? before % line_count == 0 : before == 0;
}

/*
 * Slurm calls this once per source of the option, the strongest last; before Slurm 24.05 twice for the same source.
 * "help" is answered here: init_post_opt would be too late, since srun complains of a missing command first. Only which
 * policy a command's program gets is said there.
 */
static int option_given(int value, const char *text, int remote)
{
	option_was_given = true;
	/* A value that does not fit is cut; the rest is still too long for options_parse, which refuses it. */
	snprintf(option_text, sizeof(option_text), "%s", text ? text : "");
	if (!remote && strcmp(option_text, "help") == 0 && read_site(site_argument_count, site_arguments))
		client_help(&site);
	return ESPANK_SUCCESS;
}

/* Registered in init only: a static spank_options[] makes spank_option_getopt fail in prolog and epilog. */
static struct spank_option option = {
        .name = "mpi-wait-policy",
        .arginfo = "NAME[,KEY=VALUE]",
        .usage = "how MPI ranks wait ('help' lists the policies)",
        .has_arg = 1,
        .val = 0,
        .cb = option_given,
};

int slurm_spank_init(spank_t spank, int argument_count, char **arguments)
{
	if (++line_count > 1) {
		log_set_sink(log_to_slurm);
		if (spank_context() == S_CTX_REMOTE)
			log_error("%u lines of plugstack.conf name the plugin; the first one counts", line_count);
		return ESPANK_SUCCESS;
	}
	site_argument_count = argument_count;
	site_arguments = arguments;
	client_forget_outer_job();
	spank_option_register(spank, &option);
	return ESPANK_SUCCESS;
}

int slurm_spank_init_post_opt(spank_t spank, int argument_count, char **arguments)
{
	static unsigned calls;

	if (!is_first_line(&calls))
		return ESPANK_SUCCESS;
	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		if (!read_site(argument_count, arguments))
			break;
		if (strcmp(option_text, "help") == 0)
			client_help_program(&site);
		client_resolve(spank, &site, option_was_given ? option_text : NULL);
		break;
	case S_CTX_REMOTE:
		if (read_site(argument_count, arguments))
			current_step = step_begin(spank, &site, option_text[0] ? option_text : NULL);
		break;
	default:
		break;
	}
	return ESPANK_SUCCESS;
}

int slurm_spank_task_post_fork(spank_t spank, int argument_count, char **arguments)
{
	static unsigned calls;

	if (is_first_line(&calls))
		step_bind_task(current_step, spank);
	return ESPANK_SUCCESS;
}

int slurm_spank_task_exit(spank_t spank, int argument_count, char **arguments)
{
	static unsigned calls;

	if (is_first_line(&calls))
		step_end_task(current_step, spank);
	return ESPANK_SUCCESS;
}

int slurm_spank_task_init(spank_t spank, int argument_count, char **arguments)
{
	static unsigned calls;

	if (is_first_line(&calls))
		step_inject_task(current_step, spank);
	return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t spank, int argument_count, char **arguments)
{
	step_end(current_step);
	current_step = NULL;
	return ESPANK_SUCCESS;
}

/* Returns the job's own words in a prolog or an epilog, NULL for none: its option, or what the client handed on. */
static const char *job_words(spank_t spank)
{
	char *text = NULL;

	return spank_option_getopt(spank, &option, &text) == ESPANK_SUCCESS ? text : getenv("SPANK_" CLIENT_VARIABLE);
}

int slurm_spank_job_prolog(spank_t spank, int argument_count, char **arguments)
{
	static unsigned calls;

	if (is_first_line(&calls) && read_site(argument_count, arguments))
		node_job_prolog(&site, job_words(spank));
	return ESPANK_SUCCESS;
}

int slurm_spank_job_epilog(spank_t spank, int argument_count, char **arguments)
{
	static unsigned calls;

	if (!is_first_line(&calls))
		return ESPANK_SUCCESS;
	/* The site's arguments do not matter here: grants made under older arguments are undone too. */
	log_set_sink(log_to_slurm);
	node_job_revoke();
	if (read_site(argument_count, arguments))
		node_job_epilog(&site, job_words(spank), argument_count, arguments);
	return ESPANK_SUCCESS;
}
