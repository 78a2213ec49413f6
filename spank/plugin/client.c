#include "spank/plugin/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/policy/options.h"
#include "spank/policy/policy.h"

static void refuse(const char *source, const struct error *error)
{
	log_error("%s: %s; nothing was submitted", source, error->text);
	exit(EXIT_FAILURE);
}

/* Returns what the caller frees, NULL without memory. error: see policy_load. */
static struct policy_set *load_policies(const struct site *site, const char *named, struct error *error)
{
	struct policy_set *set = calloc(1, sizeof(*set));

	if (set)
		policy_load(site->policies, MPIWAIT_POLICIES, named, set, error);
	return set;
}

/*
 * Exits if the policy is refused. A broken file of the site's is the reason where no other file has the policy; where a
 * shipped file takes its place, the broken one is only logged.
 */
static void check_policy(const struct options *options, const struct policy_set *set, const struct site *site,
                         const struct error *broken, const char *source)
{
	struct error error = {""};
	int rc = options_check(options, set, site, &error);
	bool is_left_out = rc != -EPERM && broken->text[0];

	if (rc < 0)
		refuse(source, is_left_out ? broken : &error);
	if (is_left_out)
		log_error("%s: %s; the shipped '%s' takes its place", source, broken->text, options->policy);
}

void client_forget_outer_job(void)
{
	const char *text = getenv(CLIENT_VARIABLE);

	if (spank_context() != S_CTX_ALLOCATOR || !text || !text[0])
		return;
	unsetenv(CLIENT_OPTION_VARIABLE);
	unsetenv("SLURM_SPANK_" CLIENT_OPTION_VARIABLE); /* the same for prolog and epilog */
}

void client_help(const struct site *site)
{
	struct error error = {""};
	cleanup_free struct policy_set *set = load_policies(site, NULL, &error);
	struct policy_support support;
	struct cpu cpu;

	cpu_probe(&cpu);
	policy_probe(&cpu, site->grant, &support);
	if (set)
		options_help(set, site, &support, stdout);
	fflush(stdout);
	if (!set || error.text[0])
		log_error("%s", set ? error.text : "no memory to read the policies");
	exit(EXIT_SUCCESS);
}

void client_resolve(spank_t spank, const struct site *site, const char *option)
{
	const char *text = option ? option : getenv(CLIENT_VARIABLE);
	const char *source = option ? "--mpi-wait-policy" : "the environment's " CLIENT_VARIABLE;
	cleanup_free struct policy_set *set = NULL;
	struct options options;
	struct error error = {""};

	if (!text || (!option && !text[0]))
		return;
	if (options_parse(text, &options, &error) < 0)
		refuse(source, &error);
	/* A policy file that does not parse is reported to a user who names that policy. */
	set = load_policies(site, options.policy, &error);
	if (!set) {
		log_error("%s: no memory to read the policies; it is not checked here", source);
		return;
	}
	check_policy(&options, set, site, &error, source);
	if (site_is_switched_off(site))
		log_info("%s: the site has switched wait policies off, the job runs without", source);
	spank_job_control_setenv(spank, CLIENT_VARIABLE, text, 1);
}
