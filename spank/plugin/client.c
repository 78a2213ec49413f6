#include "spank/plugin/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spank/base/cleanup.h"
#include "spank/base/log.h"
#include "spank/policy/options.h"
#include "spank/policy/policy.h"
#include "spank/policy/wrappers.h"

#define WORDS_MAX 4096
#define TEXT_MAX  (128 * 1024)

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

/* Reads this process's command line. Returns the number of words, 0 if there are too many. *ret_words stays. */
static int read_words(char *const **ret_words)
{
	static char text[TEXT_MAX], *words[WORDS_MAX];
	cleanup_close int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text));
	int count = 0;

	*ret_words = words;
	if (length <= 0 || (size_t)length == sizeof(text))
		return 0;
	for (char *word = text; word < text + length; word += strlen(word) + 1) {
		if (count == WORDS_MAX)
			return 0;
		words[count++] = word;
	}
	return count;
}

/*
 * Returns true if srun may have a command. `optind` is getopt's, which srun uses, and stands behind the option that is
 * read now. Only options may follow in srun's command line before the command.
 */
static bool command_may_follow(void)
{
	char *const *words = NULL;
	int count = spank_context() == S_CTX_LOCAL ? read_words(&words) : 0;

	for (int i = optind; i < count; i++)
		if (words[i][0] != '-')
			return true;
	return false;
}

void client_help(const struct site *site)
{
	static bool is_answered; /* Slurm before 24.05 reads the option twice */
	struct error error = {""};
	cleanup_free struct policy_set *set = load_policies(site, NULL, &error);
	struct policy_support support;
	struct cpu cpu;

	if (is_answered)
		return;
	is_answered = true;
	cpu_probe(&cpu);
	policy_probe(&cpu, site->grant, &support);
	if (set)
		options_help(set, site, &support, stdout);
	fflush(stdout);
	if (!set || error.text[0])
		log_error("%s", set ? error.text : "no memory to read the policies");
	if (!site->programs[0] || !command_may_follow())
		exit(EXIT_SUCCESS);
}

/* Prints which policy the command's program has. */
static void print_program(const struct site *site, const struct programs *programs, int count, char *const words[])
{
	char buffer[WRAPPERS_TEXT_MAX];
	const char *program = wrappers_program(count, words, programs, buffer);
	const char *name = program ? wrappers_base_name(program) : "";
	int index = program ? programs_find(programs, name) : -1;

	if (!program)
		printf("\nThis command does not tell its program for certain: each rank's own name decides (%s).\n",
		       site->programs);
	else if (index < 0)
		printf("\nProgram '%s': %s, the site's default; no name in %s matches. Programs that it starts may "
		       "match.\n",
		       name, site->default_policy, site->programs);
	else
		printf("\nProgram '%s': %s, by '%s' in %s.\n", name, programs->policy[programs->name[index].policy],
		       programs->name[index].pattern, site->programs);
}

void client_help_program(const struct site *site)
{
	cleanup_free struct programs *programs = malloc(sizeof(*programs));
	char *const *words;
	int count = read_words(&words);
	struct error error = {""};

	if (site_is_switched_off(site))
		exit(EXIT_SUCCESS);
	if (!programs || programs_read(site->programs, programs, &error) < 0)
		printf("\nThe policies by program cannot be read here: %s.\n", programs ? error.text : "no memory");
	else if (optind < count)
		print_program(site, programs, count - optind, words + optind);
	fflush(stdout);
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
