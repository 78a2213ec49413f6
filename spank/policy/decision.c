#include "spank/policy/decision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"
#include "spank/policy/wrappers.h"

/* Sources from the strongest to the weakest, which is the site's default. The last two are the site's own words. */
enum { OPTION, ENVIRONMENT, JOB, PROGRAM, SITE, SOURCES };

/* Returns true if the policy exists, and the site allows it to users if it is a user's word. */
static bool may_hold(size_t source, const struct options *options, const struct policy_set *set,
                     const struct site *site, struct error *error)
{
	if (source == PROGRAM && policy_find(set, options->policy))
		return true;
	return options_check(options, set, site, error) == 0;
}

/* Returns the index of the strongest valid value from the source `from` to the source before `to`, `to` for none. */
static size_t pick(const char *const texts[SOURCES], size_t from, size_t to, const struct policy_set *set,
                   const struct site *site, struct options *ret_options, struct error *error)
{
	for (size_t i = from; i < to; i++)
		if (texts[i] && texts[i][0] && options_parse(texts[i], ret_options, error) == 0 &&
		    may_hold(i, ret_options, set, site, error))
			return i;
	return to;
}

/* Returns the author of the value: "job", "step", "program" or "site". */
static const char *author(const char *const texts[SOURCES], size_t picked)
{
	if (picked >= PROGRAM)
		return picked == PROGRAM ? "program" : "site";
	return texts[JOB] && strcmp(texts[picked], texts[JOB]) == 0 ? "job" : "step";
}

/* Returns true if no user gives a word, and nothing but the default "off" is given. Most jobs are like this. */
static bool nobody_asks(const char *const texts[SOURCES], bool by_program)
{
	for (size_t i = 0; i < PROGRAM; i++)
		if (texts[i] && texts[i][0])
			return false;
	return !by_program && strcmp(texts[SITE], "off") == 0;
}

/* Returns true if a step under "off" leaves a record, which has its energy only. */
static bool off_is_noted(const struct site *site, const char *const texts[SOURCES], const char *by)
{
	/* the value for the job's steps that ask for nothing */
	const char *words = texts[JOB] && texts[JOB][0] ? texts[JOB] : texts[SITE];
	bool is_steps = strcmp(by, "step") == 0 || strcmp(by, "program") == 0;

	if (site->record == SITE_RECORD_NONE || strcmp(by, "site") == 0)
		return false;
	return site->record == SITE_RECORD_ALL || (is_steps && strcmp(words, "off") != 0);
}

/*
 * Finds the policy that the site's file has for the step's program. Returns its text, or NULL if the file is missing or
 * wrong, if the program is not certain, or if no name matches. *ret_choices: the file, *ret_end: the number of names
 * that stand before the one that matched, by which ranks may still choose.
 */
static const char *find_by_program(const struct site *site, const struct decision_sources *sources,
                                   const struct policy_set *set, struct choices **ret_choices, size_t *ret_end,
                                   struct error *error)
{
	struct choices *choices = choices_load(site, set, error);
	char buffer[WRAPPERS_TEXT_MAX];
	const char *program;
	int index;

	*ret_choices = choices;
	if (!choices)
		return NULL;
	program = wrappers_program(sources->word_count, sources->words, &choices->programs, buffer);
	index = program ? programs_find(&choices->programs, wrappers_base_name(program)) : -1;
	*ret_end = index < 0 ? choices->programs.name_count : (size_t)index;
	return index < 0 ? NULL : choices->programs.policy[choices->programs.name[index].policy];
}

/* Returns the source that holds, SOURCES for none. Only where no user's word holds, programs do. */
static size_t find_source(const struct site *site, const struct decision_sources *sources, const char *texts[SOURCES],
                          const struct policy_set *set, struct decision *decision, size_t *ret_end, struct error *error)
{
	size_t picked = pick(texts, OPTION, PROGRAM, set, site, &decision->options, error);

	if (picked < PROGRAM)
		return picked;
	if (sources->by_program && site->programs[0])
		texts[PROGRAM] = find_by_program(site, sources, set, &decision->choices, ret_end, error);
	return pick(texts, PROGRAM, SOURCES, set, site, &decision->options, error);
}

/* Keeps the choices that ranks may have, if there are any. */
static void keep_choices(struct decision *decision, size_t end, bool acts, const struct policy_set *set,
                         const struct site *site, const struct policy_support *support)
{
	if (decision->choices && !choices_settle(decision->choices, end, acts, set, site, support)) {
		free(decision->choices);
		decision->choices = NULL;
	}
}

/* Decides. Returns 1 if the step runs under a policy, 0 if it does not. decision->choices are the caller's to free. */
static int decide(const struct site *site, const struct decision_sources *sources, const char *texts[SOURCES],
                  const struct policy_set *set, struct decision *decision, struct error *error)
{
	struct policy_support support;
	const struct policy *policy;
	size_t end = 0, picked = find_source(site, sources, texts, set, decision, &end, error);

	if (picked == SOURCES)
		return 0;
	cpu_probe(&decision->cpu);
	policy_probe(&decision->cpu, site->grant, &support);
	policy = policy_resolve(set, decision->options.policy, &support, &decision->use);
	if (!policy)
		return 0;
	snprintf(decision->text, sizeof(decision->text), "%s", texts[picked]);
	snprintf(decision->use.by, sizeof(decision->use.by), "%s", author(texts, picked));
	keep_choices(decision, end, policy->inject, set, site, &support);
	decision->is_unnoted = !policy->inject && !off_is_noted(site, texts, decision->use.by);
	decision->policy = *policy;
	decision->policy.rungs &= support.rungs; /* ranks use only rungs that the host supports */
	options_apply(&decision->options, site, &decision->policy);
	return !decision->is_unnoted || decision->choices;
}

int decision_make(const struct site *site, const struct decision_sources *sources, struct decision *ret_decision,
                  struct error *error)
{
	const char *texts[] = {sources->option, sources->environment, sources->job, NULL, site->default_policy};
	cleanup_free struct policy_set *set = NULL;
	struct decision decision = {.text = ""};
	int holds;

	if (site_is_switched_off(site) || nobody_asks(texts, sources->by_program && site->programs[0]))
		return 0;
	set = calloc(1, sizeof(*set));
	if (!set)
		return error_set(error, -ENOMEM, "no memory for the policies");
	policy_load_apart(site->policies, MPIWAIT_POLICIES, set, error);
	holds = decide(site, sources, texts, set, &decision, error);
	if (holds)
		*ret_decision = decision;
	else
		free(decision.choices);
	return holds;
}
