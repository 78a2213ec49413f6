#include "spank/policy/decision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spank/base/cleanup.h"

/* Sources from the strongest to the weakest, which is the site's default. */
enum { OPTION, ENVIRONMENT, JOB, SITE, SOURCES };

/* Returns the strongest valid value, or NULL, with its author in *ret_by: "job", "step" or "site". */
static const char *pick(const char *const texts[SOURCES], const struct policy_set *set, const struct site *site,
                        struct options *ret_options, const char **ret_by, struct error *error)
{
	for (size_t i = 0; i < SOURCES; i++) {
		if (!texts[i] || !texts[i][0] || options_parse(texts[i], ret_options, error) < 0 ||
		    options_check(ret_options, set, site, error) < 0)
			continue;
		*ret_by = i == SITE ? "site" : texts[JOB] && strcmp(texts[i], texts[JOB]) == 0 ? "job" : "step";
		return texts[i];
	}
	return NULL;
}

/* Returns true if nothing but the default "off" is given. Most jobs are like this, and read no file. */
static bool nobody_asks(const char *const texts[SOURCES])
{
	for (size_t i = 0; i < SITE; i++)
		if (texts[i] && texts[i][0])
			return false;
	return strcmp(texts[SITE], "off") == 0;
}

/* Returns true if a step under "off" leaves a record, which has its energy only. */
static bool off_is_noted(const struct site *site, const char *const texts[SOURCES], const char *by)
{
	/* the value for the job's steps that ask for nothing */
	const char *words = texts[JOB] && texts[JOB][0] ? texts[JOB] : texts[SITE];

	if (site->record == SITE_RECORD_NONE || strcmp(by, "site") == 0)
		return false;
	return site->record == SITE_RECORD_ALL || (strcmp(by, "step") == 0 && strcmp(words, "off") != 0);
}

int decision_make(const struct site *site, const struct decision_sources *sources, struct decision *ret_decision,
                  struct error *error)
{
	const char *const texts[] = {sources->option, sources->environment, sources->job, site->default_policy};
	cleanup_free struct policy_set *set = NULL;
	struct policy_support support;
	const struct policy *policy;
	struct decision decision = {.text = ""};
	const char *text, *by;

	if (site_is_switched_off(site) || nobody_asks(texts))
		return 0;
	set = calloc(1, sizeof(*set));
	if (!set)
		return error_set(error, -ENOMEM, "no memory for the policies");
	policy_load_apart(site->policies, MPIWAIT_POLICIES, set, error);
	text = pick(texts, set, site, &decision.options, &by, error);
	if (!text)
		return 0;
	cpu_probe(&decision.cpu);
	policy_probe(&decision.cpu, site->grant, &support);
	policy = policy_resolve(set, decision.options.policy, &support, &decision.use);
	if (!policy || (!policy->inject && !off_is_noted(site, texts, by)))
		return 0;
	snprintf(decision.text, sizeof(decision.text), "%s", text);
	snprintf(decision.use.by, sizeof(decision.use.by), "%s", by);
	decision.policy = *policy;
	decision.policy.rungs &= support.rungs; /* ranks use only rungs that the host supports */
	options_apply(&decision.options, site, &decision.policy);
	*ret_decision = decision;
	return 1;
}
